// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/providers"
)

// processesOf counts the live processes that were started with this state directory.
func processesOf(t testing.TB, dir string) int {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "ps", "-axww", "-o", "args=").Output()
	require.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, " forward-proxy ") && strings.Contains(line, dir+string(filepath.Separator)) {
			n++
		}
	}
	return n
}

// awaitProcesses waits until there are n processes, no more and no fewer.
func awaitProcesses(t *testing.T, dir string, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return processesOf(t, dir) == n }, patience, glance, "%d processes", n)
}

func TestAKilledProcessIsStoppedAndNotStartedAgain(t *testing.T) {
	p := provider(t, stateDir(t))
	req := request("killed")
	inst := await(t, p, create(t, p, req).Ref, providers.StateRunning)
	pid := holder(t, p, inst.Ref)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	stopped := await(t, p, inst.Ref, providers.StateStopped)
	require.Equal(t, providers.StateStopped, create(t, p, req).State, "the reconciler replaces it under another name")
	require.Equal(t, []providers.Instance{stopped}, list(t, p))
	require.Eventually(t, func() bool { return !exists(pid) }, patience, glance, "it is reaped, not a zombie")

	// Readers don't disturb each other: only a create or delete under way makes a place busy.
	pl, err := p.find(opGet, inst.Ref)
	require.NoError(t, err)
	other, err := tryLockDir(pl.dir, unix.LOCK_SH)
	require.NoError(t, err)
	require.Equal(t, []providers.Instance{stopped}, list(t, p))
	require.NoError(t, other.unlock())
	awaitGone(t, p, inst.Ref)
}

func TestAProcessIsProvisioningUntilItServes(t *testing.T) {
	p := provider(t, stateDir(t))
	inst := create(t, p, behaving("slow", "never-ready"))
	require.Equal(t, providers.StateProvisioning, inst.State)
	got, err := p.Get(t.Context(), inst.Ref)
	require.NoError(t, err)
	require.Equal(t, providers.StateProvisioning, got.State)

	// What an earlier process with another PID has left doesn't count.
	pl, err := p.find(opGet, inst.Ref)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(pl.ready(), []byte(`{"pid":1}`), 0o600))
	got, err = p.Get(t.Context(), inst.Ref)
	require.NoError(t, err)
	require.Equal(t, providers.StateProvisioning, got.State)
}

func TestAProcessThatIgnoresSIGTERMIsKilledAfterTheGrace(t *testing.T) {
	p := provider(t, stateDir(t))
	c := clocktesting.NewFakeClock(p.opts.Clock.Now())
	inst := await(t, p, create(t, p, behaving("stubborn", "ignore-term")).Ref, providers.StateRunning)
	p.opts.Clock = c
	require.NoError(t, p.Delete(t.Context(), inst.Ref))
	require.Eventually(t, c.HasWaiters, patience, glance)
	c.Step(stopGrace / 2)
	require.Eventually(t, c.HasWaiters, patience, glance)
	got, err := p.Get(t.Context(), inst.Ref)
	require.NoError(t, err)
	require.Equal(t, providers.StateDeleting, got.State, "it may still end its connections")
	require.NoError(t, p.Delete(t.Context(), inst.Ref), "a repeat is fine")
	require.Eventually(t, func() bool {
		c.Step(stopGrace / 2)
		_, err := p.Get(t.Context(), inst.Ref)
		return providers.Is(err, providers.NotFound)
	}, patience, glance)
}

func TestAForeignProcessIsNeverBelievedNorSignalled(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	req := request("reused")
	inst := await(t, p, create(t, p, req).Ref, providers.StateRunning)
	require.NoError(t, syscall.Kill(holder(t, p, inst.Ref), syscall.SIGKILL))
	await(t, p, inst.Ref, providers.StateStopped)

	// The PID has gone to somebody else, who is named in every file and holds nothing.
	bystander := exec.CommandContext(t.Context(), "sleep", "600")
	require.NoError(t, bystander.Start())
	pid := bystander.Process.Pid
	pl, err := p.find(opGet, inst.Ref)
	require.NoError(t, err)
	text := []byte(`{"address":"` + inst.IP + `","port":3128,"pid":` + strconv.Itoa(pid) + `}`)
	require.NoError(t, os.WriteFile(pl.ready(), text, 0o600))
	require.NoError(t, os.WriteFile(pl.lock(), []byte(strconv.Itoa(pid)), 0o600))

	got, err := p.Get(t.Context(), inst.Ref)
	require.NoError(t, err)
	require.Equal(t, providers.StateStopped, got.State)
	require.NoError(t, p.Delete(t.Context(), inst.Ref))
	awaitGone(t, p, inst.Ref)
	require.NoError(t, bystander.Process.Signal(syscall.Signal(0)), "still there")
	require.NoError(t, bystander.Process.Kill())
	var exit *exec.ExitError
	require.ErrorAs(t, bystander.Wait(), &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), "by us, and by nobody before")
}

func TestProcessesThatDoNotStartLeaveNothing(t *testing.T) {
	cases := map[string]struct {
		why, binary, userData, text string
		want                        providers.ErrorClass
	}{
		"a binary that is gone":       {"an upgrade may remove it", "/nonexistent/binary", "", "start process", providers.Transient},
		"a binary that isn't one":     {"the permission must change", "no-binary", "", "start process", providers.Denied},
		"a process that ends at once": {"its last words help", "", "exit-at-once", "exit status 4: no such luck", providers.Transient},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := stateDir(t)
			p := provider(t, dir)
			if tc.binary != "" {
				p.opts.Binary = tc.binary
			}
			if tc.binary == "no-binary" {
				p.opts.Binary = filepath.Join(t.TempDir(), "text")
				require.NoError(t, os.WriteFile(p.opts.Binary, []byte("text"), 0o600))
			}
			_, err := p.Create(t.Context(), behaving("broken", tc.userData))
			require.Equal(t, tc.want, providers.MutationClass(err), "%s: %v", tc.why, err)
			require.ErrorContains(t, err, tc.text)
			require.Empty(t, leftovers(t, dir))
			require.Zero(t, processesOf(t, dir))
		})
	}
}

func TestAProcessThatNeverTakesItsLockIsKilled(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	c := clocktesting.NewFakeClock(p.opts.Clock.Now())
	p.opts.Clock = c
	done := make(chan error, 1)
	go func() {
		_, err := p.Create(t.Context(), behaving("stuck", "never-lock"))
		done <- err
	}()
	var err error
	require.Eventually(t, func() bool {
		c.Step(startLimit)
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	}, patience, glance)
	require.True(t, providers.Is(err, providers.Transient), err)
	require.ErrorContains(t, err, "did not take its lock")
	require.Empty(t, leftovers(t, dir))
	require.Zero(t, processesOf(t, dir))
}

func TestTheProcessHasNoSecretsInSight(t *testing.T) {
	p := provider(t, stateDir(t))
	req := request("discreet")
	req.Username, req.Password = "alice", "s3cret"
	inst := await(t, p, create(t, p, req).Ref, providers.StateRunning)
	out, err := exec.CommandContext(t.Context(), "ps", "eww", "-p", strconv.Itoa(holder(t, p, inst.Ref))).Output() // with the environment
	require.NoError(t, err)
	require.Contains(t, string(out), "--auth-dir")
	require.NotContains(t, string(out), "s3cret")
	require.NotContains(t, string(out), "alice")
	require.NotContains(t, string(out), "PATH=")
}

func TestNoDescriptorIsLeaked(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	round := func(uid string) {
		inst := await(t, p, create(t, p, request(uid)).Ref, providers.StateRunning)
		pid := holder(t, p, inst.Ref)
		awaitGone(t, p, inst.Ref)
		require.Eventually(t, func() bool { return !exists(pid) }, patience, glance, "it is reaped")
	}
	round("warm-up")
	before := descriptors(t)
	for _, uid := range []string{"a", "b", "c", "d", "e"} {
		round(uid)
	}
	require.Eventually(t, func() bool { return descriptors(t) <= before }, patience, glance)
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/dev/fd")
	require.NoError(t, err)
	return len(open)
}

func TestAPipeThatTheOperatorInheritedEndsWithTheOperator(t *testing.T) {
	dir := stateDir(t)
	cmd := operator(t, dir, "lock held", "create")
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.ExtraFiles = []*os.File{w}
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	require.Error(t, cmd.Wait(), "it kills itself")
	require.Equal(t, 1, processesOf(t, dir))
	require.NoError(t, r.SetReadDeadline(provider(t, dir).opts.Clock.Now().Add(patience)))
	rest, err := io.ReadAll(r)
	require.NoError(t, err, "the pipe ends although the instance lives")
	require.Empty(t, rest)
	require.NoError(t, r.Close())
}

func TestALongOutputIsCut(t *testing.T) {
	p := provider(t, stateDir(t))
	inst := create(t, p, request("talkative"))
	pl, err := p.find(opGet, inst.Ref)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(pl.output(), outputLimit+1))
	list(t, p)
	info, err := os.Stat(pl.output())
	require.NoError(t, err)
	require.Zero(t, info.Size())
}
