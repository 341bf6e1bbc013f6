// SPDX-License-Identifier: Apache-2.0

package judge_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/proxy-operator/proxy-operator/internal/judge"
)

const patience = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask calls the handler and checks what holds for every good answer.
func ask(t *testing.T, target string, headers http.Header) (judge.Answer, *httptest.ResponseRecorder) {
	t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, target, nil)
	r.Header = headers
	r.RemoteAddr = "[::ffff:192.0.2.7]:4711"
	w := httptest.NewRecorder()
	judge.Handler().ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, judge.Value, w.Header().Get(judge.Header))
	sum := sha256.Sum256(w.Body.Bytes())
	require.Equal(t, "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":", w.Header().Get("Content-Digest"))
	var a judge.Answer
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a))
	return a, w
}

func TestTheJudgeTellsWhatItSees(t *testing.T) {
	type h = http.Header
	type shown = map[string][]string
	long := strings.Repeat("x", 1000)
	cases := map[string]struct {
		why, url string
		headers  h
		want     judge.Answer
	}{
		"nothing of a proxy":        {"", "/?nonce=ab-C_1", h{"User-Agent": {"x"}}, judge.Answer{Nonce: "ab-C_1", Headers: shown{}}},
		"a nonce in the header":     {"the URL stays the same", "/", h{judge.NonceHeader: {"n"}}, judge.Answer{Nonce: "n", Headers: shown{}}},
		"both nonces":               {"a cache may have kept the header", "/?nonce=a", h{judge.NonceHeader: {"b"}}, judge.Answer{Nonce: "a", Headers: shown{}}},
		"Via":                       {"", "/", h{"Via": {"1.1 a", "1.1 b"}}, judge.Answer{Headers: shown{"Via": {"1.1 a", "1.1 b"}}}},
		"the client's address":      {"", "/?self=10.0.0.1", h{"X-Forwarded-For": {"192.0.2.1, 10.0.0.1"}}, judge.Answer{Self: true, Headers: shown{"X-Forwarded-For": {"192.0.2.1, 10.0.0.1"}}}},
		"another one":               {"a part of an address is another address", "/?self=10.0.0.1", h{"X-Forwarded-For": {"10.0.0.12"}}, judge.Answer{Headers: shown{"X-Forwarded-For": {"10.0.0.12"}}}},
		"one of two addresses":      {"", "/?self=10.0.0.1&self=10.0.0.2", h{"X-Tinyproxy": {"10.0.0.2"}}, judge.Answer{Self: true, Headers: shown{"X-Tinyproxy": {"10.0.0.2"}}}},
		"with a port, quoted":       {"RFC 7239", "/?self=2001:db8::1", h{"Forwarded": {`for="[2001:db8::1]:47";by=x`}}, judge.Answer{Self: true, Headers: shown{"Forwarded": {`for="[2001:db8::1]:47";by=x`}}}},
		"mapped to IPv6":            {"", "/?self=::ffff:10.0.0.1", h{"X-Real-Ip": {"10.0.0.1:80"}}, judge.Answer{Self: true, Headers: shown{"X-Real-Ip": {"10.0.0.1:80"}}}},
		"credentials of the proxy":  {"a broken proxy passes them on; the answer may be logged", "/", h{"Proxy-Authorization": {"Basic c2VjcmV0"}}, judge.Answer{Headers: shown{"Proxy-Authorization": {"redacted"}}}},
		"a long value":              {"answers stay short", "/", h{"Via": {long}}, judge.Answer{Headers: shown{"Via": {long[:256]}}}},
		"many values":               {"", "/", h{"Via": strings.Split(strings.Repeat("a,", 20), ",")}, judge.Answer{Headers: shown{"Via": {"a", "a", "a", "a", "a", "a", "a", "a"}}}},
		"a self that is no address": {"", "/?self=a", h{"Via": {"a"}}, judge.Answer{Headers: shown{"Via": {"a"}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, w := ask(t, tc.url, tc.headers)
			tc.want.Source = "192.0.2.7"
			require.Equal(t, tc.want, got, tc.why)
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		})
	}
}

func TestOnlyAnAnswerThatWasAskedForMayBeStored(t *testing.T) {
	_, w := ask(t, "/?cache=1", nil)
	require.Equal(t, "public, max-age=60", w.Header().Get("Cache-Control"))
	_, w = ask(t, "/?cache=0", nil)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
}

func TestTheJudgeRefuses(t *testing.T) {
	cases := map[string]struct {
		why, method, url string
		want             int
	}{
		"POST":         {"it takes nothing in", http.MethodPost, "/", http.StatusMethodNotAllowed},
		"CONNECT":      {"it is no proxy", http.MethodConnect, "/", http.StatusMethodNotAllowed},
		"a long nonce": {"it echoes only what is short", http.MethodGet, "/?nonce=" + strings.Repeat("a", 65), http.StatusBadRequest},
		"markup":       {"and only what no browser would run", http.MethodGet, "/?nonce=%3Cscript%3E", http.StatusBadRequest},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			judge.Handler().ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), tc.method, tc.url, nil))
			require.Equal(t, tc.want, w.Code, tc.why)
			require.Equal(t, judge.Value, w.Header().Get(judge.Header), "its own refusal is known as such")
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			require.Empty(t, w.Body.String())
		})
	}
}

// start runs the subcommand and returns where, and a function that stops it and
// returns its log.
func start(t *testing.T, o judge.Options) (string, func() (string, error)) {
	t.Helper()
	var log bytes.Buffer
	addresses := make(chan net.Addr, 1)
	o.BindAddress, o.LogOutput = "127.0.0.1:0", &log
	o.Listening = func(a net.Addr) { addresses <- a }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- judge.Run(ctx, o) }()
	stop := func() (string, error) {
		cancel()
		err := <-ended
		ended <- err
		return log.String(), err
	}
	t.Cleanup(func() { _, _ = stop() })
	select {
	case a := <-addresses:
		return a.String(), stop
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "the judge doesn't listen")
	}
	return "", nil
}

func TestTheJudgeServesAndEndsAndLogsNoAddressOfClients(t *testing.T) {
	address, stop := start(t, judge.Options{})
	// Another address than the judge's own, which is in the log.
	dialer := net.Dialer{}
	conn, err := dialer.DialContext(context.Background(), "tcp", address)
	require.NoError(t, err)
	client := conn.LocalAddr().String()
	_, err = io.WriteString(conn, "GET /?nonce=n HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.99\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Contains(t, string(answer), `"nonce":"n"`)

	log, err := stop()
	require.NoError(t, err)
	require.Contains(t, log, address)
	require.Contains(t, log, "judge has ended")
	require.NotContains(t, log, client)
	require.NotContains(t, log, "192.0.2.99")
	_, err = dialer.DialContext(context.Background(), "tcp", address)
	require.Error(t, err, "nobody listens any more")
}

func TestAnIdleClientDoesNotHoldTheEndUp(t *testing.T) {
	address, stop := start(t, judge.Options{})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+address, nil)
	require.NoError(t, err)
	res, err := client.Do(req)
	require.NoError(t, err)
	_, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	begin := time.Now()
	_, err = stop()
	require.NoError(t, err)
	require.Less(t, time.Since(begin), 4*time.Second, "less than the grace")
}

func get(t *testing.T, client *http.Client, target string) *http.Response {
	t.Helper()
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, target, nil)
	require.NoError(t, err)
	req.Close = true
	res, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res
}

// certify writes a new certificate into dir and returns a client that trusts it
// alone.
func certify(t *testing.T, dir string, serial int64) *http.Client {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: private}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	roots := x509.NewCertPool()
	roots.AddCert(parse(t, der))
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
}

func parse(t *testing.T, der []byte) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return c
}

func TestTheJudgeServesTLSAndTakesANewCertificate(t *testing.T) {
	dir := t.TempDir()
	client := certify(t, dir, 1)
	address, stop := start(t, judge.Options{TLSCertPath: dir})
	require.Equal(t, judge.Value, get(t, client, "https://"+address).Header.Get(judge.Header))

	renewed := certify(t, dir, 2)
	require.Eventually(t, func() bool {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+address, nil)
		require.NoError(t, err)
		res, err := renewed.Do(req)
		if err != nil {
			return false
		}
		return res.Body.Close() == nil
	}, patience, 20*time.Millisecond)
	_, err := stop()
	require.NoError(t, err)
}

func TestTheJudgeSaysWhyItCannotStart(t *testing.T) {
	err := judge.Run(context.Background(), judge.Options{BindAddress: "127.0.0.1:0", TLSCertPath: t.TempDir(), LogOutput: io.Discard})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "read tls.crt and tls.key in ")

	taken, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	err = judge.Run(context.Background(), judge.Options{BindAddress: taken.Addr().String(), LogOutput: io.Discard})
	require.ErrorContains(t, err, "listen on "+taken.Addr().String())
}
