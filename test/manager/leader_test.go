// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// holder is who has the lease of an instance of the operator; empty: nobody.
func holder(t require.TestingT, f *fleet) string {
	var l coordinationv1.Lease
	name := "proxy-operator-" + f.instance + ".crawl.proxy-operator.io"
	key := client.ObjectKey{Namespace: cluster.standard.namespace(), Name: name}
	require.NoError(t, client.IgnoreNotFound(cluster.admin.Get(f.t.Context(), key, &l)))
	return ptr.Deref(l.Spec.HolderIdentity, "")
}

// works reports whether the manager has begun to work.
func works(m *manager) bool { return strings.Contains(m.Output(), "Starting workers") }

func TestOneOfTwoManagersWorksAndTheOtherTakesOverAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	first := f.start("--leader-elect")
	eventually(t, func(c *assert.CollectT) { require.True(c, works(first)) })
	second := f.start("--leader-elect")
	was := holder(t, f)
	require.NotEmpty(t, was)
	f.create("led-1")
	f.create("led-2")
	f.settled("led-1", "led-2")
	require.False(t, works(second), "one is at work at a time")

	require.NoError(t, first.Signal(syscall.SIGTERM))
	first.wait()
	require.Zero(t, first.ExitCode())
	gone := time.Now()
	eventually(t, func(c *assert.CollectT) {
		require.NotEmpty(c, holder(c, f))
		require.NotEqual(c, was, holder(c, f))
	})
	took := time.Since(gone)
	t.Logf("the lease changed hands %s after the leader had ended", took)
	require.Less(t, took, 12*time.Second, "the lease is released, not waited out for 15 s")

	f.create("led-3")
	for name, p := range f.settled("led-1", "led-2", "led-3") {
		require.Equal(t, int64(1), p.Status.Instance.Incarnation, name)
		requireTraffic(t, p, login{})
	}
}

func TestALeaderThatIsKilledIsSucceededAndNothingIsDoubled(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	first := f.start("--leader-elect")
	eventually(t, func(c *assert.CollectT) { require.True(c, works(first)) })
	second := f.start("--leader-elect")
	f.create("orphaned-1")
	f.settled("orphaned-1")
	f.create("orphaned-2")
	first.kill()
	eventually(t, func(c *assert.CollectT) { require.True(c, works(second), "the lease runs out after 15 s") })
	f.settled("orphaned-1", "orphaned-2")
}

func TestTwoInstancesOfTheOperatorLeaveEachOthersMachinesAlone(t *testing.T) {
	t.Parallel()
	a := newFleet(t)
	b := newFleet(t)
	b.state = a.state // the worst case: one account
	b.write("operator.yaml", "accounts:\n- name: local\n  type: local\n  local:\n    stateDir: "+a.state+"\n")
	a.start("--leader-elect")
	b.start("--leader-elect")
	// Of one name, as far as anybody but the API server can tell.
	a.create("same-name")
	b.create("same-name")
	pa, pb := a.ready("same-name"), b.ready("same-name")
	require.NotEqual(t, pa.Status.ProviderID, pb.Status.ProviderID)
	pid := b.processOf(pb)
	a.edit("same-name", func(p *v1alpha1.Proxy) { port(3160)(&p.Spec) })
	pa = a.replaced(pa)
	a.delete("same-name")
	a.awaitGone("same-name", pa.UID)
	b.seen("same-name")
	require.Equal(t, pid, b.processOf(pb))
	require.Equal(t, pb.Status, b.read("same-name").Status)
	requireTraffic(t, pb, login{})
}

// A new leader can't know whether its predecessor's last create is still on its way, and creates nothing beside it until
// that is certain, after 90 s. It must not take down what serves meanwhile.
func TestAnEditAfterAHandoverTakesNoProxyDownForLong(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	first := f.start()
	f.create("handed-over")
	old := f.settled("handed-over")["handed-over"]
	require.NoError(t, first.Signal(syscall.SIGTERM))
	first.wait()
	f.start()
	f.edit("handed-over", func(p *v1alpha1.Proxy) { port(3151)(&p.Spec) })
	var down time.Duration
	served := time.Now()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		p := f.read("handed-over")
		if p.Status.IP != "" {
			if status, err := visit(t.Context(), p, login{}, "http"); err == nil && status == http.StatusOK {
				served = time.Now()
			}
		}
		down = max(down, time.Since(served))
		requireReplaced(c, old, p)
	}, settleLimit, 250*time.Millisecond)
	t.Logf("nobody served for %s", down)
	require.Less(t, down, 30*time.Second)
}
