// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/providers"
	"github.com/proxy-operator/proxy-operator/providers/providertest"
)

// TestSuiteBites runs the conformance suite against clouds that are broken in one way each, and wants it to fail in the
// case that is there for it.
func TestSuiteBites(t *testing.T) {
	idle := map[string]bool{} // cases that nothing has failed yet
	for _, p := range Profiles() {
		for _, c := range providertest.Cases(t, harness(broken{profile: p})) {
			idle[c.Name] = true
		}
	}
	for name, b := range brokenClouds() {
		t.Run(name, func(t *testing.T) {
			names := failing(t, b)
			for _, n := range names {
				delete(idle, n)
			}
			require.Contains(t, names, b.caught, "the suite doesn't bite; failing: %q", names)
		})
	}
	require.Empty(t, idle, "a case that no broken cloud fails proves nothing")
}

// TestSuiteIsSilentOnAnHonestCloud shows that the recorder isn't what fails above.
func TestSuiteIsSilentOnAnHonestCloud(t *testing.T) {
	for _, p := range Profiles() {
		require.Empty(t, failing(t, broken{profile: p}), p.Name)
	}
}

// harness opens broken clouds.
func harness(b broken) providertest.Harness {
	return providertest.Harness{Open: func(testing.TB) providertest.World {
		clk := clocktesting.NewFakeClock(noon)
		c := New(b.profile, clk, 1)
		w := world(c, clk)
		honest := w.Process
		w.Process = func() providers.Provider {
			p := &bent{Provider: honest()}
			if b.how != nil {
				b.how(c, p)
			}
			return p
		}
		return w
	}}
}

// failing returns the names of the cases that a broken cloud fails.
func failing(t *testing.T, b broken) []string {
	t.Helper()
	var names []string
	for _, c := range providertest.Cases(t, harness(b)) {
		if watch(t, c.Run) {
			names = append(names, c.Name)
		}
	}
	return names
}

// watch runs a case and reports whether it failed.
func watch(t *testing.T, run func(testing.TB)) bool {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // FailNow ends the goroutine that it is called in
		defer close(done)
		run(r)
	}()
	<-done
	return r.Failed()
}

// recorder is a testing.TB that keeps a failure to itself.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) FailNow()              { r.Fail(); runtime.Goexit() }
func (r *recorder) Error(...any)          { r.Fail() }
func (r *recorder) Errorf(string, ...any) { r.Fail() }
func (r *recorder) Fatal(...any)          { r.FailNow() }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }
func (r *recorder) Helper()               {}
func (r *recorder) Logf(string, ...any)   {}
