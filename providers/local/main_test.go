// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"encoding/json"
	"flag"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	account      = "here"
	installation = "installation-one"
	// operatorEnv makes the test binary play an operator that dies at a point: "STATE|POINT|VERB".
	operatorEnv = "LOCAL_TEST_OPERATOR"
	// patience is how long a test waits for another process on a busy machine.
	patience = 30 * time.Second
	glance   = 5 * time.Millisecond
)

// TestMain lets the test binary play the two other processes of these tests: the forward proxy, and an operator.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "forward-proxy" {
		os.Exit(playForwardProxy(os.Args[2:]))
	}
	if role := os.Getenv(operatorEnv); role != "" {
		os.Exit(playOperator(role))
	}
	os.Exit(m.Run())
}

// playForwardProxy does what the provider relies on. The instance's user data says where it is to misbehave.
func playForwardProxy(args []string) int {
	flags := flag.NewFlagSet("forward-proxy", flag.ContinueOnError)
	listen, ready := flags.String("listen", "", ""), flags.String("ready-file", "", "")
	lockFile, _ := flags.String("lock-file", "", ""), flags.String("auth-dir", "", "")
	if flags.Parse(args) != nil {
		return 2
	}
	behaviour, err := os.ReadFile(filepath.Join(filepath.Dir(*lockFile), "user-data"))
	if err != nil {
		return 3
	}
	if strings.Contains(string(behaviour), "exit-at-once") {
		_, _ = os.Stderr.WriteString("no such luck\n")
		return 4
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	if strings.Contains(string(behaviour), "never-lock") {
		<-terminated
		return 0
	}
	if _, err := processlock.Acquire(*lockFile); err != nil {
		return 5
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return 6
	}
	addr := l.Addr().(*net.TCPAddr)
	raw, err := json.Marshal(map[string]any{"address": addr.IP.String(), "port": addr.Port, "pid": os.Getpid()})
	if err != nil || !strings.Contains(string(behaviour), "never-ready") && os.WriteFile(*ready, raw, 0o600) != nil {
		return 7
	}
	if strings.Contains(string(behaviour), "ignore-term") {
		terminated = nil
	}
	<-terminated
	return 0
}

// playOperator creates, and then deletes if it is told so, and kills itself at the point.
func playOperator(role string) int {
	part := strings.SplitN(role, "|", 3)
	p, err := providerAt(part[0])
	if err != nil {
		return 2
	}
	p.hook = func(point string) {
		if point == part[1] {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	inst, err := p.Create(context.Background(), request("crashed"))
	if err != nil {
		return 3
	}
	if part[2] == "delete" {
		for err == nil {
			err = p.Delete(context.Background(), inst.Ref)
		}
		return 0
	}
	_, _ = os.Stdout.WriteString("created\n")
	select {}
}

func providerAt(stateDir string) (*Provider, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := Options{Binary: self, StateDir: stateDir, Clock: clock.RealClock{}, Log: logr.Discard()}
	return newProvider(account, nil, o), nil
}

// stateDir makes a state directory whose instances are gone at the end of the test, however it ends.
func stateDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return !deleteAll(t, dir) && len(leftovers(t, dir)) == 0 }, patience, glance, "all instances go")
	})
	return dir
}

// deleteAll asks every instance of every account to go and reports whether there was one.
func deleteAll(t testing.TB, dir string) bool {
	t.Helper()
	p := provider(t, dir)
	ctx := context.WithoutCancel(t.Context())
	_ = list(t, p) // sweeps
	places, err := p.scan()
	require.NoError(t, err)
	for _, pl := range places {
		if r, err := readRecord(pl); err == nil {
			p.account = r.Account
		}
		err := p.Delete(ctx, p.ref(pl))
		require.True(t, err == nil || providers.Is(err, providers.NotFound), err)
	}
	return len(places) > 0
}

// leftovers lists every file below the zone folders.
func leftovers(t testing.TB, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	require.NoError(t, err)
	hidden, err := filepath.Glob(filepath.Join(dir, "*", ".*"))
	require.NoError(t, err)
	return append(found, hidden...)
}

func provider(t testing.TB, dir string) *Provider {
	t.Helper()
	p, err := providerAt(dir)
	require.NoError(t, err)
	return p
}

// request is a good one for the Proxy of this UID.
func request(uid string) providers.CreateRequest {
	k := providers.Key{InstallationID: installation, ProxyUID: uid, Incarnation: 1, Account: account}
	return providers.CreateRequest{
		Key: k, Name: k.Name(), Port: 3128, Protocol: "HTTP",
		Tags: providers.Tags{
			ManagedBy: providers.ManagedBy, Installation: installation, OwnerUID: uid,
			Namespace: "crawl", Name: uid, Incarnation: 1, SpecHash: "v1:abc",
		},
	}
}

func behaving(uid, userData string) providers.CreateRequest {
	req := request(uid)
	req.UserData = userData
	return req
}

func list(t testing.TB, p *Provider) []providers.Instance {
	t.Helper()
	found, err := p.ListByTag(context.WithoutCancel(t.Context()), providers.Selector{Installation: installation})
	require.NoError(t, err)
	return found
}

func create(t testing.TB, p *Provider, req providers.CreateRequest) providers.Instance {
	t.Helper()
	inst, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	return inst
}

// await waits until the instance is in the state.
func await(t testing.TB, p *Provider, ref providers.Ref, want providers.InstanceState) providers.Instance {
	t.Helper()
	var inst providers.Instance
	require.Eventually(t, func() bool {
		var err error
		inst, err = p.Get(t.Context(), ref)
		return err == nil && inst.State == want
	}, patience, glance, "state %s", want)
	return inst
}

// awaitGone deletes until nothing is left.
func awaitGone(t testing.TB, p *Provider, ref providers.Ref) {
	t.Helper()
	require.Eventually(t, func() bool {
		err := p.Delete(t.Context(), ref)
		return providers.Is(err, providers.NotFound)
	}, patience, glance, "instance goes")
	_, err := p.Get(t.Context(), ref)
	require.True(t, providers.Is(err, providers.NotFound), err)
}

// awaitSwept lists until nothing is left on disk. One list need not do: the files of a process that took its lock in the
// last moment stay for the next.
func awaitSwept(t testing.TB, p *Provider, dir string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(list(t, p)) == 0 && len(leftovers(t, dir)) == 0 }, patience, glance, "what isn't an instance is swept")
}

// holder is the PID of the instance's process, 0 if there is none.
func holder(t testing.TB, p *Provider, ref providers.Ref) int {
	t.Helper()
	pl, err := p.find(opGet, ref)
	require.NoError(t, err)
	pid, held, err := processlock.Holder(pl.lock())
	require.NoError(t, err)
	if !held {
		return 0
	}
	require.Positive(t, pid)
	return pid
}

// exists reports whether the process is there, be it as a zombie.
func exists(pid int) bool { return syscall.Kill(pid, 0) == nil }
