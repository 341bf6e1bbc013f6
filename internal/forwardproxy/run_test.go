// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

// runEnv makes the test binary play the subcommand, with its files in a folder.
const runEnv = "FORWARDPROXY_TEST_RUN"

func runUntilStdinEnds(dir string) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	if err := forwardproxy.Run(ctx, optionsIn(dir)); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func optionsIn(dir string) forwardproxy.Options {
	return forwardproxy.Options{
		Listen:    "127.0.0.1:0",
		ReadyFile: filepath.Join(dir, "ready.json"),
		LockFile:  filepath.Join(dir, "lock"),
		LogFormat: forwardproxy.LogConsole,
	}
}

func awaitReady(t *testing.T, dir string) forwardproxy.Ready {
	t.Helper()
	var ready forwardproxy.Ready
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(filepath.Join(dir, "ready.json")) // #nosec G304 -- a folder of the test's own
		return err == nil && json.Unmarshal(content, &ready) == nil
	}, patience, 5*time.Millisecond)
	return ready
}

func healthz(t *testing.T, ready forwardproxy.Ready) {
	t.Helper()
	c := dialRaw(t, net.JoinHostPort(ready.Address, fmt.Sprint(ready.Port)))
	c.say("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	_, body := c.response(http.MethodGet)
	require.Equal(t, "ok", body)
}

func TestAProcessIsKnownByItsLockAndItsReadyFile(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	startProcess := func() (*exec.Cmd, io.WriteCloser, *bytes.Buffer) {
		cmd := exec.CommandContext(context.Background(), self) // #nosec G204 -- the test binary itself
		cmd.Env = append(os.Environ(), runEnv+"="+dir)
		var log bytes.Buffer
		cmd.Stderr = &log
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		return cmd, stdin, &log
	}

	cmd, _, _ := startProcess()
	ready := awaitReady(t, dir)
	require.Equal(t, cmd.Process.Pid, ready.PID)
	healthz(t, ready)
	pid, held, err := processlock.Holder(filepath.Join(dir, "lock"))
	require.NoError(t, err)
	require.True(t, held)
	require.Equal(t, ready.PID, pid)

	var heldErr *processlock.HeldError
	require.ErrorAs(t, forwardproxy.Run(context.Background(), optionsIn(dir)), &heldErr)
	require.Equal(t, ready.PID, heldErr.PID)
	second, _, log := startProcess()
	require.Error(t, second.Wait(), "one instance per lock")
	require.Contains(t, log.String(), "is held by process")
	require.Equal(t, ready, awaitReady(t, dir), "the loser leaves the ready file alone")

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Equal(t, ready, awaitReady(t, dir), "a crash leaves the file, so only the lock is proof")
	require.NoError(t, os.Remove(filepath.Join(dir, "ready.json")))

	next, stdin, log := startProcess()
	ready = awaitReady(t, dir)
	require.Equal(t, next.Process.Pid, ready.PID)
	require.NoError(t, stdin.Close())
	require.NoError(t, next.Wait(), "a graceful end is no error")
	require.Contains(t, log.String(), "forward proxy is listening")
	require.NoFileExists(t, filepath.Join(dir, "ready.json"))
}

// run plays the subcommand within this process and stops it at the end.
func run(t *testing.T, o forwardproxy.Options) (ready forwardproxy.Ready) {
	t.Helper()
	dir := t.TempDir()
	o.ReadyFile = filepath.Join(dir, "ready.json")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- forwardproxy.Run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, receive(t, ended))
	})
	return awaitReady(t, dir)
}

func TestEgressAddressIsTheListenAddressByDefault(t *testing.T) {
	own := ownAddress(t).String()
	origin := startOrigin(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) })
	cases := map[string]struct{ why, listen, egress, want string }{
		"by default":  {"that is what auto means", own + ":0", "", own},
		"auto":        {"origins tell proxies apart", own + ":0", forwardproxy.EgressBindAuto, own},
		"off":         {"the kernel chooses", own + ":0", forwardproxy.EgressBindOff, "127.0.0.1"},
		"an address":  {"it may differ from the listen address", "127.0.0.1:0", own, own},
		"auto on all": {"0.0.0.0 is nobody's own address", "0.0.0.0:0", forwardproxy.EgressBindAuto, "127.0.0.1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ready := run(t, forwardproxy.Options{Listen: tc.listen, EgressBind: tc.egress, LogOutput: io.Discard})
			if ready.Address == "0.0.0.0" {
				ready.Address = "127.0.0.1"
			}
			c := dialRaw(t, net.JoinHostPort(ready.Address, fmt.Sprint(ready.Port)))
			c.say("GET " + origin.URL + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			_, body := c.response(http.MethodGet)
			host, _, err := net.SplitHostPort(body)
			require.NoError(t, err)
			require.Equal(t, tc.want, host, tc.why)
		})
	}
}

func TestRunReadsCredentialsAndKeepsThemOutOfTheLog(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "username"), []byte("crawler-name"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte("hush-hush\n"), 0o600))
	var log bytes.Buffer
	t.Run("traffic", func(t *testing.T) {
		ready := run(t, forwardproxy.Options{Listen: "127.0.0.1:0", AuthDir: dir, Verbose: true, LogOutput: &log})
		require.Equal(t, os.Getpid(), ready.PID)
		target := "http://" + closedPort(t)
		for header, want := range map[string]int{
			"X-None: 1": 407,
			"Proxy-Authorization: " + basic("crawler-name:hush-hush"): 502,
		} {
			c := dialRaw(t, fmt.Sprintf("127.0.0.1:%d", ready.Port))
			c.say("GET " + target + "/path?token=query HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + header + "\r\n\r\n")
			res, _ := c.response(http.MethodGet)
			require.Equal(t, want, res.StatusCode)
		}
	})
	require.Contains(t, log.String(), "request failed")
	for _, secret := range []string{"crawler-name", "hush-hush", basic("crawler-name:hush-hush")[6:], "token"} {
		require.NotContains(t, log.String(), secret)
	}
}

func TestRunRefusesWhatItCannotDo(t *testing.T) {
	taken, err := forwardproxy.Listen(context.Background(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, taken.Close()) })
	cases := map[string]struct {
		why     string
		options forwardproxy.Options
		wantErr string
		wantIs  error
	}{
		"a port that is taken":        {"the caller may try another", forwardproxy.Options{Listen: taken.Addr().String()}, "in use by another process", forwardproxy.ErrAddressInUse},
		"an address of others":        {"", forwardproxy.Options{Listen: "192.0.2.1:0"}, "listen on 192.0.2.1:0", syscall.EADDRNOTAVAIL},
		"a log format of its own":     {"", forwardproxy.Options{LogFormat: "xml"}, `log format "xml": write json or console`, nil},
		"an egress that's no address": {"", forwardproxy.Options{EgressBind: "on"}, `egress bind "on": write auto, off or an address`, nil},
		"an egress to the world":      {"", forwardproxy.Options{Listen: "127.0.0.1:0", EgressBind: "192.0.2.1"}, "127.0.0.0/8", nil},
		"an empty auth folder":        {"never open by mistake", forwardproxy.Options{AuthDir: t.TempDir()}, "load credentials", os.ErrNotExist},
		"a lock nowhere":              {"", forwardproxy.Options{LockFile: filepath.Join(t.TempDir(), "no", "lock")}, "acquire process lock", os.ErrNotExist},
		"a ready file nowhere":        {"", forwardproxy.Options{Listen: "127.0.0.1:0", ReadyFile: filepath.Join(t.TempDir(), "no", "ready")}, "write ready file", os.ErrNotExist},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := forwardproxy.Run(context.Background(), tc.options)
			require.ErrorContains(t, err, tc.wantErr, tc.why)
			if tc.wantIs != nil {
				require.ErrorIs(t, err, tc.wantIs, tc.why)
			}
		})
	}
}
