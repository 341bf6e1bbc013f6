// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// operator is another operator on the state directory, a real process, which kills itself at the point.
func operator(t *testing.T, dir, point, verb string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self) // #nosec G204 -- the test's own binary
	cmd.Env = append(os.Environ(), operatorEnv+"="+dir+"|"+point+"|"+verb)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// crash runs an operator until it has killed itself.
func crash(t *testing.T, dir, point, verb string) {
	t.Helper()
	cmd := operator(t, dir, point, verb)
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Run(), &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
}

var createPoints = map[string]struct {
	why    string
	record bool // the instance exists from here on
}{
	"directory made":  {"an empty directory is no instance", false},
	"inputs written":  {"credentials without a record are no instance", false},
	"record written":  {"the record is the instance", true},
	"process started": {"the process may or may not have its lock yet", true},
	"lock held":       {"only the answer was lost", true},
}

func TestCreateAgainAfterACrashAtEachStep(t *testing.T) {
	for point, tc := range createPoints {
		t.Run(point, func(t *testing.T) {
			dir := stateDir(t)
			crash(t, dir, point, "create")
			p := provider(t, dir)
			inst := create(t, p, request("crashed"))
			await(t, p, inst.Ref, providers.StateRunning)
			require.Len(t, list(t, p), 1, tc.why)
			awaitProcesses(t, dir, 1) // a second one may just be finding the lock taken
			awaitGone(t, p, inst.Ref)
			require.Empty(t, leftovers(t, dir))
			awaitProcesses(t, dir, 0)
		})
	}
}

func TestListAfterACrashAtEachStepOfCreate(t *testing.T) {
	for point, tc := range createPoints {
		t.Run(point, func(t *testing.T) {
			dir := stateDir(t)
			crash(t, dir, point, "create")
			p := provider(t, dir)
			found := list(t, p)
			if !tc.record {
				require.Empty(t, found, tc.why)
				awaitSwept(t, p, dir)
				return
			}
			require.Len(t, found, 1, tc.why)
			require.Equal(t, request("crashed").Tags, found[0].Tags)
			awaitGone(t, p, found[0].Ref)
			awaitProcesses(t, dir, 0)
			require.Empty(t, leftovers(t, dir))
		})
	}
}

func TestDeleteAfterACrashAtEachStepOfCreate(t *testing.T) {
	for point, tc := range createPoints {
		t.Run(point, func(t *testing.T) {
			dir := stateDir(t)
			crash(t, dir, point, "create")
			p := provider(t, dir)
			awaitGone(t, p, providers.Ref{Account: account, Path: request("crashed").Name})
			require.Empty(t, leftovers(t, dir), tc.why)
			awaitProcesses(t, dir, 0)
		})
	}
}

func TestDeleteGoesOnAfterACrashAtEachStep(t *testing.T) {
	for _, point := range []string{"marked", "signalled", "renamed"} {
		t.Run(point, func(t *testing.T) {
			dir := stateDir(t)
			crash(t, dir, point, "delete")
			p := provider(t, dir)
			for _, inst := range list(t, p) {
				require.Equal(t, providers.StateDeleting, inst.State)
			}
			awaitGone(t, p, providers.Ref{Account: account, Path: request("crashed").Name})
			require.Empty(t, leftovers(t, dir))
			awaitProcesses(t, dir, 0)
		})
	}
}

func TestAProcessThatTookItsLockTooLateIsKilled(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	inst := await(t, p, create(t, p, request("late")).Ref, providers.StateRunning)
	pl, err := p.find(opGet, inst.Ref)
	require.NoError(t, err)
	require.NoError(t, os.Rename(pl.dir, pl.trash())) // as by a delete that saw the lock free a moment ago

	require.NoError(t, p.Delete(t.Context(), inst.Ref), "NotFound would say that the process is gone")
	awaitGone(t, p, inst.Ref)
	awaitProcesses(t, dir, 0)
	require.Empty(t, leftovers(t, dir))
}

func TestAReaderFinishesADeleteWhoseProcessHasEnded(t *testing.T) {
	dir := stateDir(t)
	crash(t, dir, "signalled", "delete")
	p := provider(t, dir)
	require.Eventually(t, func() bool { return len(list(t, p)) == 0 }, patience, glance, "the crashed operator had asked it to end")
	awaitSwept(t, p, dir)
}

func TestAnotherOperatorFindsAll(t *testing.T) {
	dir := stateDir(t)
	first := provider(t, dir)
	want := map[string]providers.Instance{}
	for _, uid := range []string{"a", "b", "c"} {
		inst := await(t, first, create(t, first, request(uid)).Ref, providers.StateRunning)
		want[inst.Name] = inst
	}
	got := map[string]providers.Instance{}
	for _, inst := range list(t, provider(t, dir)) {
		got[inst.Name] = inst
	}
	require.Equal(t, want, got)
}

func TestManyCreatesOfOneKeyMakeOneProcess(t *testing.T) {
	dir := stateDir(t)
	two := []*Provider{provider(t, dir), provider(t, dir)}
	var wg sync.WaitGroup
	pids := make(chan int, 8)
	for i := range 8 {
		wg.Go(func() {
			p := two[i%2]
			inst, err := p.Create(t.Context(), request("wanted"))
			if err == nil {
				pids <- holder(t, p, inst.Ref)
			}
		})
	}
	wg.Wait()
	close(pids)
	first := <-pids
	require.Positive(t, first)
	n := 1
	for pid := range pids {
		require.Equal(t, first, pid)
		n++
	}
	require.Equal(t, 8, n, "every create is answered")
	require.Len(t, list(t, two[0]), 1)
	awaitProcesses(t, dir, 1)
}

func TestCtrlCOfTheOperatorDoesNotReachTheInstance(t *testing.T) {
	dir := stateDir(t)
	cmd := operator(t, dir, "", "stay")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "created\n", line)

	// A terminal sends SIGINT to every process of the group, and SIGHUP when it closes.
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, syscall.SIGINT, exit.Sys().(syscall.WaitStatus).Signal())

	p := provider(t, dir)
	inst := await(t, p, list(t, p)[0].Ref, providers.StateRunning)
	pid := holder(t, p, inst.Ref)
	require.NotZero(t, pid)
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	require.Equal(t, pid, group, "it leads a group, and so a session, of its own")
}

func TestHalfARecordIsNoInstance(t *testing.T) {
	cases := map[string]struct{ why, content string }{
		"half of the text": {"a disk may lose the end", `{"account":"here","name":`},
		"half of the tags": {"it could be anybody's", `{"account":"here","name":"` + request("half").Name + `","address":"127.9.9.9","port":1,"tags":{"managedBy":"proxy-operator"}}`},
		"another name":     {"it was copied by hand", `{"account":"here","name":"px-aaaaaaaaaaaaaaaaaaaaaaaa"}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := stateDir(t)
			p := provider(t, dir)
			req := request("half")
			inst := filepath.Join(dir, "default", req.Name)
			require.NoError(t, os.MkdirAll(inst, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(inst, "record.json"), []byte(tc.content), 0o600))
			_, err := p.Get(t.Context(), providers.Ref{Account: account, Path: req.Name})
			require.True(t, providers.Is(err, providers.NotFound), tc.why)
			require.Empty(t, list(t, p), tc.why)
			require.Empty(t, leftovers(t, dir))
		})
	}
}

func TestACreateThatEndsWithItsContextTellsTheTruth(t *testing.T) {
	cases := map[string]struct {
		why, point string
		want       []providers.ErrorClass
		instances  int
	}{
		"before the record": {"nothing was made, but the caller doesn't wait to hear it", "inputs written", []providers.ErrorClass{providers.Ambiguous, providers.Transient}, 0},
		"after the record":  {"nothing is started for a caller who has gone", "record written", []providers.ErrorClass{providers.Ambiguous, providers.Transient}, 0},
		"after the process": {"the process is there", "process started", []providers.ErrorClass{providers.Ambiguous}, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := stateDir(t)
			p := provider(t, dir)
			ctx, cancel := context.WithCancel(t.Context())
			answered := make(chan struct{})
			p.hook = func(point string) {
				if point == tc.point {
					cancel()
					<-answered // the answer doesn't wait for the work
				}
			}
			_, err := p.Create(ctx, request("hasty"))
			close(answered)
			require.Contains(t, tc.want, providers.MutationClass(err), tc.why)
			require.Eventually(t, func() bool { return len(list(t, p)) == tc.instances }, patience, glance, tc.why)
			if tc.instances == 0 {
				require.Eventually(t, func() bool { return len(leftovers(t, dir)) == 0 }, patience, glance, tc.why)
			}
		})
	}
}

func TestACallWithAnEndedContextChangesNothing(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	inst := await(t, p, create(t, p, request("kept")).Ref, providers.StateRunning)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Create(ctx, request("unmade"))
	require.True(t, providers.Is(err, providers.Transient), err)
	require.True(t, providers.Is(p.Delete(ctx, inst.Ref), providers.Transient))
	_, err = p.Get(ctx, inst.Ref)
	require.True(t, providers.Is(err, providers.Transient), err)
	_, err = p.ListByTag(ctx, providers.Selector{Installation: installation})
	require.True(t, providers.Is(err, providers.Transient), err)
	require.Equal(t, []providers.Instance{inst}, list(t, p))
}

func TestACreateThatWaitsForAnotherEndsWithItsContext(t *testing.T) {
	dir := stateDir(t)
	slow, hasty := provider(t, dir), provider(t, dir)
	reached, goOn := make(chan struct{}), make(chan struct{})
	slow.hook = func(point string) {
		if point == "inputs written" {
			close(reached)
			<-goOn
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := slow.Create(t.Context(), request("shared"))
		done <- err
	}()
	<-reached
	ctx, cancel := context.WithTimeout(t.Context(), 10*glance)
	defer cancel()
	_, err := hasty.Create(ctx, request("shared"))
	require.True(t, providers.Is(err, providers.Transient), "%v: this call made nothing", err)
	require.Empty(t, list(t, hasty), "an instance isn't seen before its record is whole")
	close(goOn)
	require.NoError(t, <-done)
	require.Len(t, list(t, hasty), 1)
}
