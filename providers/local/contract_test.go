// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
	"github.com/proxy-operator/proxy-operator/providers"
	"github.com/proxy-operator/proxy-operator/providers/providertest"
)

func TestContract(t *testing.T) {
	for name, zones := range map[string][]string{"without zones": nil, "with zones": {"north", "south"}} {
		t.Run(name, func(t *testing.T) {
			providertest.Run(t, providertest.Harness{Open: func(t testing.TB) providertest.World { return open(t, zones) }})
		})
	}
}

// machine is one state directory and the operators on it.
type machine struct {
	t     testing.TB
	dir   string
	zones []string

	mu    sync.Mutex
	steps int // that the next create may take before f is called
	f     func()
}

func open(t testing.TB, zones []string) providertest.World {
	m := &machine{t: t, dir: stateDir(t), zones: zones}
	return providertest.World{
		Process: func() providers.Provider { return m.operator(account) },
		Account: account, Zones: zones, Patience: patience,
		Settle: m.settle, Exists: m.exists, Count: m.count, Plant: m.plant, Stop: m.stop,
		Vanish:    func(ref providers.Ref) { m.stop(ref); require.NoError(t, os.RemoveAll(m.place(ref).dir)) },
		Interrupt: m.interrupt,
		Elsewhere: func() (providers.Provider, string) { return m.operator("elsewhere"), "elsewhere" },
	}
}

func (m *machine) operator(account string) *Provider {
	p := provider(m.t, m.dir)
	p.account, p.zones, p.hook = account, m.zones, m.step
	return p
}

func (m *machine) step(string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.f == nil {
		return
	}
	if m.steps--; m.steps < 0 {
		m.f()
		m.f = nil
	}
}

func (m *machine) interrupt(step int, f func()) (reached func() bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps, m.f = step, f
	return func() bool {
		m.settle()
		m.mu.Lock()
		defer m.mu.Unlock()
		happened := m.f == nil
		m.f = nil
		return happened
	}
}

// settle waits for every create that is under way: each holds its place's lock.
func (m *machine) settle() {
	p := m.operator(account)
	places, err := p.scan()
	require.NoError(m.t, err)
	for _, pl := range places {
		l, err := lockDir(m.t.Context(), p.opts.Clock, pl.dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		require.NoError(m.t, err)
		require.NoError(m.t, l.unlock())
	}
}

func (m *machine) place(ref providers.Ref) place {
	pl, err := m.operator(ref.Account).find("look", ref)
	require.NoError(m.t, err)
	return pl
}

func (m *machine) exists(ref providers.Ref) bool {
	for _, dir := range []string{m.place(ref).dir, m.place(ref).trash()} {
		_, held, err := processlock.Holder(filepath.Join(dir, lockName))
		require.NoError(m.t, err)
		if _, err := os.Lstat(dir); err == nil || held {
			return true
		}
	}
	return false
}

func (m *machine) count() int { return processesOf(m.t, m.dir) }

// plant makes an instance of somebody else under the name.
func (m *machine) plant(zone, name string) func() bool {
	req := request("somebody-else")
	req.Key.Zone, req.Name = zone, name
	p := m.operator(account)
	pl := p.place(zone, name)
	l, err := p.makeAndLock(m.t.Context(), pl)
	require.NoError(m.t, err)
	inst, err := p.createLocked(m.t.Context(), l, pl, req) // past Create, which takes no name but the key's
	require.NoError(m.t, err)
	pid, _, err := processlock.Holder(m.place(inst.Ref).lock())
	require.NoError(m.t, err)
	record, err := os.ReadFile(m.place(inst.Ref).record())
	require.NoError(m.t, err)
	return func() bool {
		now, held, err := processlock.Holder(m.place(inst.Ref).lock())
		require.NoError(m.t, err)
		still, err := os.ReadFile(m.place(inst.Ref).record())
		require.NoError(m.t, err)
		return held && now == pid && string(still) == string(record)
	}
}

func (m *machine) stop(ref providers.Ref) {
	pid, held, err := processlock.Holder(m.place(ref).lock())
	require.NoError(m.t, err)
	require.True(m.t, held)
	require.NoError(m.t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(m.t, func() bool { return !exists(pid) }, patience, glance)
}
