// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

// requireCondition checks what a condition says.
func requireCondition(t require.TestingT, p *v1alpha1.Proxy, kind, status, reason string) {
	c := meta.FindStatusCondition(p.Status.Conditions, kind)
	require.NotNil(t, c, "%s of %s: %+v", kind, p.Name, p.Status.Conditions)
	require.Equal(t, status, string(c.Status), "%s of %s: %+v", kind, p.Name, c)
	require.Equal(t, reason, c.Reason, "%s of %s: %+v", kind, p.Name, c)
}

// requireUntouched checks that nobody has written to the Proxies since, and that they have the machines that they had.
func (f *fleet) requireUntouched(then ...*v1alpha1.Proxy) {
	f.t.Helper()
	for _, p := range then {
		require.Equal(f.t, p.ResourceVersion, f.read(p.Name).ResourceVersion, p.Name)
		f.processOf(p)
	}
}

// seen returns when a pass has seen the Proxy as it is now: an annotation that isn't valid shows in its status, and its
// removal as well.
func (f *fleet) seen(name string) {
	f.t.Helper()
	f.edit(name, annotate(v1alpha1.AnnotationAbandon, "seen?"))
	f.await(name, func(c *assert.CollectT, p *v1alpha1.Proxy) {
		requireCondition(c, p, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonInvalidAnnotation)
	})
	f.edit(name, func(p *v1alpha1.Proxy) { delete(p.Annotations, v1alpha1.AnnotationAbandon) })
	f.await(name, func(c *assert.CollectT, p *v1alpha1.Proxy) {
		require.Nil(c, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled))
	})
}

// soon is a moment that has just begun, as a user writes it.
func soon() string { return time.Now().UTC().Add(time.Second).Format(time.RFC3339) }

// byWatch checks that what happened to a Secret is seen before the operator would look at it by itself, after 30 s at
// the earliest.
func (f *fleet) byWatch(see func()) {
	f.t.Helper()
	start := time.Now()
	see()
	require.Less(f.t, time.Since(start), 25*time.Second)
}

// awaitNoProcess returns when the instance's process has left the process table, and its lock, which the kernel frees a
// moment later when the process is killed, and the process itself a moment before when it ends in order.
func (f *fleet) awaitNoProcess(name string) {
	f.t.Helper()
	eventually(f.t, func(c *assert.CollectT) {
		running, err := operator.RunningMachines(f.t.Context(), f.state)
		require.NoError(c, err)
		for _, i := range running {
			require.NotEqual(c, name, i.Name, "process %d is left", i.PID)
		}
		_, held, err := processlock.Holder(filepath.Join(f.state, "default", name, "lock"))
		require.NoError(c, err)
		require.False(c, held)
	})
}

func killPID(pid int) error {
	if pid <= 1 {
		return errors.New("not a process to kill")
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// removeFolder takes an instance's files away, as somebody who cleans up by hand.
func (f *fleet) removeFolder(name string) {
	f.t.Helper()
	require.NoError(f.t, os.RemoveAll(filepath.Join(f.state, "default", name)))
}
