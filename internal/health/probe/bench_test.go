// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/internal/judge"
)

// serveEnv makes the test's binary the far end of a benchmark: its work must not
// count as the prober's.
const serveEnv = "PROBE_BENCHMARK_SERVE"

// farEnd is what that process says of itself.
type farEnd struct{ Proxy, Plain, Secure, PEM string }

// serveFarEnd serves until standard input ends.
func serveFarEnd() int {
	server, err := forwardproxy.New(forwardproxy.Config{})
	if err != nil {
		return 1
	}
	listener, err := forwardproxy.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		return 1
	}
	go func() { _ = server.Serve(context.Background(), listener) }()
	plain, secure := httptest.NewServer(judge.Handler()), httptest.NewTLSServer(judge.Handler())
	err = json.NewEncoder(os.Stdout).Encode(farEnd{
		Proxy: listener.Addr().String(), Plain: plain.URL, Secure: secure.URL,
		PEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})),
	})
	if err != nil {
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func startFarEnd(b *testing.B) (farEnd, *x509.CertPool) {
	b.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		require.NoError(b, in.Close())
		require.NoError(b, cmd.Wait())
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(b, err)
	var far farEnd
	require.NoError(b, json.Unmarshal(line, &far))
	roots := x509.NewCertPool()
	require.True(b, roots.AppendCertsFromPEM([]byte(far.PEM)))
	return far, roots
}

// cpu is what this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var use unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkProbeCPU compares the CPU of a probe with that of a bare net/http client
// that asks for the same by a connection of its own each time, in one run and by
// turns. Its figure probe-cpu-ratio must stay below 1.3.
func BenchmarkProbeCPU(b *testing.B) {
	far, roots := startFarEnd(b)
	for _, way := range []struct{ name, url string }{{"absolute-form", far.Plain}, {"CONNECT", far.Secure}} {
		b.Run(way.name, func(b *testing.B) {
			p := prober(patience)
			p.Sessions = tls.NewLRUClientSessionCache(0)
			proxy, target := proxyAt(b, probe.HTTP, far.Proxy), probe.Target{URL: way.url, Judge: true, RootCAs: roots}
			bare := &http.Client{Timeout: patience, Transport: &http.Transport{
				Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: far.Proxy}),
				DisableKeepAlives: true,
				TLSClientConfig:   &tls.Config{RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(0), MinVersion: tls.VersionTLS12},
			}}
			const turn = 100
			var ours, theirs time.Duration
			probes := 0
			for b.Loop() {
				begin := cpu(b)
				for range turn {
					out := p.Probe(context.Background(), proxy, target)
					require.Equal(b, probe.FaultNone, out.Fault, out.Detail)
				}
				runtime.GC() // everybody pays for the own garbage
				between := cpu(b)
				for range turn {
					fetchBare(b, bare, way.url)
				}
				runtime.GC()
				ours += between - begin
				theirs += cpu(b) - between
				probes += turn
			}
			b.ReportMetric(float64(ours.Microseconds())/float64(probes), "probe-cpu-us")
			b.ReportMetric(float64(theirs.Microseconds())/float64(probes), "bare-cpu-us")
			b.ReportMetric(float64(ours)/float64(theirs), "probe-cpu-ratio")
		})
	}
}

func fetchBare(b *testing.B, client *http.Client, target string) {
	b.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, target+"?nonce=x", nil)
	require.NoError(b, err)
	res, err := client.Do(req)
	require.NoError(b, err)
	_, err = io.ReadAll(res.Body)
	require.NoError(b, err)
	require.NoError(b, res.Body.Close())
	require.Equal(b, http.StatusOK, res.StatusCode)
}
