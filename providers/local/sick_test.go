// SPDX-License-Identifier: Apache-2.0

package local

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/providers"
)

// readers are the calls that only look.
var readers = map[string]func(testing.TB, *Provider, providers.Ref){
	"get":  func(t testing.TB, p *Provider, ref providers.Ref) { _, _ = p.Get(t.Context(), ref) },
	"list": func(t testing.TB, p *Provider, _ providers.Ref) { list(t, p) },
}

func crashedRef() providers.Ref {
	return providers.Ref{Account: account, Path: request("crashed").Name}
}

func TestAReaderEndsAProcessWhoseDeleteCrashedAfterTheMark(t *testing.T) {
	for name, read := range readers {
		for wrong, mark := range map[string]time.Duration{"clock is right": 0, "mark is in the future": 1000 * time.Hour} {
			t.Run(name+" when the "+wrong, func(t *testing.T) {
				dir := stateDir(t)
				crash(t, dir, "marked", "delete")
				p := provider(t, dir)
				pid := holder(t, p, crashedRef())
				require.NotZero(t, pid, "nothing has signalled it")
				require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP), "SIGTERM alone won't do")
				pl, err := p.find(opGet, crashedRef())
				require.NoError(t, err)
				r, err := readRecord(pl)
				require.NoError(t, err)
				r.DeletingSince = r.DeletingSince.Add(mark)
				require.NoError(t, writeRecord(pl, r))

				c := clocktesting.NewFakeClock(p.opts.Clock.Now())
				p.opts.Clock = c
				read(t, p, crashedRef())
				require.Eventually(t, c.HasWaiters, patience, glance, "the read has started the end")
				require.Equal(t, pid, holder(t, p, crashedRef()), "it has its grace")
				c.Step(stopGrace)
				require.Eventually(t, func() bool {
					c.Step(glance)
					return processesOf(t, dir) == 0 && len(leftovers(t, dir)) == 0
				}, patience, glance)
				_, err = p.Get(t.Context(), crashedRef())
				require.True(t, providers.Is(err, providers.NotFound), err)
			})
		}
	}
}

func TestAnEndThatFailedIsTriedAgainByTheNextRead(t *testing.T) {
	for name, read := range readers {
		t.Run(name, func(t *testing.T) {
			dir := stateDir(t)
			p := provider(t, dir)
			inst := await(t, p, create(t, p, behaving("stubborn", "ignore-term")).Ref, providers.StateRunning)
			pl, err := p.find(opGet, inst.Ref)
			require.NoError(t, err)
			c := clocktesting.NewFakeClock(p.opts.Clock.Now())
			p.opts.Clock = c
			heal, failed := func() {}, make(chan struct{})
			p.hook = func(point string) {
				if point == "signalled" {
					heal = spoilLock(t, pl.dir)
					close(failed)
				}
			}
			require.NoError(t, p.Delete(t.Context(), inst.Ref))
			<-failed
			ended := func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.ending) == 0 }
			require.Eventually(t, ended, patience, glance, "the lock can't be asked")
			heal()
			p.hook = nil
			require.NotZero(t, holder(t, p, inst.Ref))

			read(t, p, inst.Ref)
			require.Eventually(t, func() bool {
				c.Step(stopGrace)
				return processesOf(t, dir) == 0 && len(leftovers(t, dir)) == 0
			}, patience, glance)
		})
	}
}

func TestTwoOperatorsDoNotCutAGraceShort(t *testing.T) {
	dir := stateDir(t)
	crash(t, dir, "marked", "delete")
	p := provider(t, dir)
	pl, err := p.find(opGet, crashedRef())
	require.NoError(t, err)
	other, err := tryLockRecord(pl) // another operator is at it
	require.NoError(t, err)
	ended := func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.ending) == 0 }
	require.Len(t, list(t, p), 1)
	require.Eventually(t, ended, patience, glance)
	require.NotZero(t, holder(t, p, crashedRef()), "it got no signal from us")
	require.NoError(t, other.unlock())
	require.Eventually(t, func() bool { return len(list(t, p)) == 0 }, patience, glance)
	awaitProcesses(t, dir, 0)
}

// spoilLock puts a socket in the place of an instance's lock file, so that nobody can ask who holds it.
func spoilLock(t *testing.T, dir string) (heal func()) {
	t.Helper()
	short, err := os.MkdirTemp("", "s") // a socket's path must be short
	require.NoError(t, err)
	l, err := net.Listen("unix", filepath.Join(short, "s"))
	require.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	lock := filepath.Join(dir, lockName)
	require.NoError(t, os.Rename(lock, lock+".kept"))
	require.NoError(t, os.Rename(filepath.Join(short, "s"), lock))
	require.NoError(t, l.Close())
	require.NoError(t, os.Remove(short))
	return func() { require.NoError(t, os.Rename(lock+".kept", lock)) }
}

var lostRecords = map[string]func(*testing.T, string){
	"is removed": func(*testing.T, string) {},
	"is empty":   func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, nil, 0o600)) },
	"is half": func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path, []byte(`{"account":"he`), 0o600))
	},
	"is a directory": func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
	"is a full one":  func(t *testing.T, path string) { require.NoError(t, os.MkdirAll(filepath.Join(path, "x"), 0o700)) },
	"is a link":      func(t *testing.T, path string) { require.NoError(t, os.Symlink("user-data", path)) },
	"is a loop":      func(t *testing.T, path string) { require.NoError(t, os.Symlink("record.json", path)) },
	"is a FIFO":      func(t *testing.T, path string) { require.NoError(t, syscall.Mkfifo(path, 0o600)) },
	"is out of bound": func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Truncate(path, 1<<40))
	},
}

func TestAProcessWhoseRecordIsLostIsNobodysAndEnds(t *testing.T) {
	for name, lose := range lostRecords {
		t.Run("the record "+name, func(t *testing.T) {
			dir := stateDir(t)
			p := provider(t, dir)
			well := await(t, p, create(t, p, request("well")).Ref, providers.StateRunning)
			sick := await(t, p, create(t, p, request("sick")).Ref, providers.StateRunning)
			pl, err := p.find(opGet, sick.Ref)
			require.NoError(t, err)
			require.NoError(t, os.Remove(pl.record()))
			lose(t, pl.record())

			other := newProvider("other", nil, p.opts) // whoever lists first
			require.Empty(t, list(t, other))
			require.Zero(t, holder(t, p, sick.Ref), "no list leaves out a process that lives")
			require.NoDirExists(t, pl.dir)
			require.Equal(t, []providers.Instance{well}, list(t, p))
			again := await(t, p, create(t, p, request("sick")).Ref, providers.StateRunning)
			require.Equal(t, sick.Ref, again.Ref)
		})
	}
}

func TestCallsOfThePlaceWhoseRecordIsLostEndItsProcess(t *testing.T) {
	calls := map[string]func(*testing.T, *Provider, providers.Ref){
		"get": func(t *testing.T, p *Provider, ref providers.Ref) {
			_, err := p.Get(t.Context(), ref)
			require.True(t, providers.Is(err, providers.NotFound), err)
		},
		"delete": func(t *testing.T, p *Provider, ref providers.Ref) {
			require.True(t, providers.Is(p.Delete(t.Context(), ref), providers.NotFound))
		},
		"create": func(t *testing.T, p *Provider, ref providers.Ref) {
			require.Equal(t, ref, create(t, p, request("lost")).Ref)
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			dir := stateDir(t)
			p := provider(t, dir)
			inst := await(t, p, create(t, p, request("lost")).Ref, providers.StateRunning)
			pid := holder(t, p, inst.Ref)
			pl, err := p.find(opGet, inst.Ref)
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			require.NoError(t, os.Remove(pl.record()))
			call(t, p, inst.Ref)
			require.NotEqual(t, pid, holder(t, p, inst.Ref))
			require.Eventually(t, func() bool { return !exists(pid) }, patience, glance)
		})
	}
}

func TestASickPlaceIsTheDoubtOfItsOwnerAlone(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	ours := await(t, p, create(t, p, request("ours")).Ref, providers.StateRunning)
	req := request("theirs")
	req.Tags.Installation = "installation-two"
	theirs := await(t, p, create(t, p, req).Ref, providers.StateRunning)
	pl, err := p.find(opGet, theirs.Ref)
	require.NoError(t, err)
	heal := spoilLock(t, pl.dir)
	defer heal()

	require.Equal(t, []providers.Instance{ours}, list(t, p))
	create(t, p, request("new"))
	_, err = p.ListByTag(t.Context(), providers.Selector{Installation: "installation-two"})
	require.ErrorContains(t, err, theirs.Name, "a part of the list must not pass for the whole")
	_, err = p.Get(t.Context(), theirs.Ref)
	require.True(t, providers.Is(err, providers.Transient), err)
	require.Error(t, p.Delete(t.Context(), theirs.Ref))
}

func TestTrashThatCannotBeRemovedStopsNoList(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	inst := await(t, p, create(t, p, request("well")).Ref, providers.StateRunning)
	trash := p.place("", request("gone").Name).trash()
	require.NoError(t, os.Mkdir(trash, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(trash, lockName), nil, 0o600))
	heal := spoilLock(t, trash)
	require.Equal(t, []providers.Instance{inst}, list(t, p))
	require.DirExists(t, trash)
	heal()
	require.Equal(t, []providers.Instance{inst}, list(t, p))
	require.NoDirExists(t, trash)
}

func TestAReadyFileThatIsAFIFODoesNotHoldAReaderUp(t *testing.T) {
	p := provider(t, stateDir(t))
	inst := await(t, p, create(t, p, request("odd")).Ref, providers.StateRunning)
	pl, err := p.find(opGet, inst.Ref)
	require.NoError(t, err)
	require.NoError(t, os.Remove(pl.ready()))
	require.NoError(t, syscall.Mkfifo(pl.ready(), 0o600))
	got, err := p.Get(t.Context(), inst.Ref)
	require.NoError(t, err)
	require.Equal(t, providers.StateProvisioning, got.State)
}

func TestALinkInPlaceOfALockFileIsHeldByNobody(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	inst := await(t, p, create(t, p, request("linked")).Ref, providers.StateRunning)
	pl, err := p.find(opGet, inst.Ref)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(holder(t, p, inst.Ref), syscall.SIGKILL))
	await(t, p, inst.Ref, providers.StateStopped)
	require.NoError(t, os.Remove(pl.lock()))
	require.NoError(t, os.Symlink("user-data", pl.lock()))
	require.Equal(t, providers.StateStopped, list(t, p)[0].State)
	awaitGone(t, p, inst.Ref)
	require.Empty(t, leftovers(t, dir))
}
