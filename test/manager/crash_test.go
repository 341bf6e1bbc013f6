// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

const (
	churned = 15 // Proxies
	kills   = 6
	// settleLimit: after a crash a create counts as open for up to 90 s, and whoever waits for it, such as a deletion,
	// waits that long.
	settleLimit = 90*time.Second + patience
)

func TestAManagerThatIsKilledAgainAndAgainLeavesOneProcessPerProxy(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	seed := rand.Uint64() //nolint:gosec // moments, no secrets
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // as above
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	names := make(chan []string, 1)
	go func() { names <- f.churn(ctx, rand.New(rand.NewPCG(seed, 2))) }() //nolint:gosec // as above
	for n := range kills {
		m := f.launch()
		if n%3 != 2 { // else it is killed while it starts
			m.awaitReady()
		}
		<-time.After(time.Duration(dice.IntN(2500)) * time.Millisecond)
		require.False(t, m.Ended(), m.Output())
		m.kill()
	}
	stop()
	left := <-names
	t.Logf("%d Proxies after the churn", len(left))
	f.start()
	for name, p := range f.settledWithin(settleLimit, left...) {
		t.Logf("%s: machine number %d", name, p.Status.Instance.Incarnation)
		requireTraffic(t, p, login{})
	}
}

// churn creates, edits and deletes Proxies until ctx ends, and returns the names of those that are to stay.
func (f *fleet) churn(ctx context.Context, dice *rand.Rand) []string {
	background := context.WithoutCancel(ctx)
	there := map[string]bool{}
	var stay []string
	for ctx.Err() == nil {
		name := fmt.Sprintf("churned-%02d", dice.IntN(churned))
		key := client.ObjectKey{Namespace: f.ns, Name: name}
		p := &v1alpha1.Proxy{}
		err := cluster.admin.Get(background, key, p)
		switch roll := dice.IntN(100); {
		case apierrors.IsNotFound(err):
			err = cluster.admin.Create(background, proxy(f.ns, name))
			there[name] = err == nil
		case err != nil || !p.DeletionTimestamp.IsZero():
		case roll < 8: // few: a name is free again only when its machine is proved gone
			err = cluster.admin.Delete(background, p)
			there[name] = false
		default:
			was := p.DeepCopy()
			port(3128 + dice.Int32N(50))(&p.Spec)
			err = cluster.admin.Patch(background, p, client.MergeFrom(was))
		}
		if client.IgnoreNotFound(err) != nil {
			f.t.Errorf("churn: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(dice.IntN(250)) * time.Millisecond):
		}
	}
	for name, is := range there {
		if is {
			stay = append(stay, name)
		}
	}
	return stay
}

func TestProxiesServeWhileNoManagerRuns(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	l := login{"crawler", "outliving-password-2Cx"}
	f.credentials("login", l)
	f.create("open-1")
	f.create("open-2")
	f.create("asks", authFrom("login"))
	names := []string{"open-1", "open-2", "asks"}
	m := f.start()
	before := f.settled(names...)
	pids := map[string]int{}
	for name, p := range before {
		pids[name] = f.processOf(p)
	}
	stay := func(how string) {
		t.Helper()
		for name, p := range before {
			require.Equal(t, pids[name], f.processOf(p), "%s after %s", name, how)
			if name == "asks" {
				requireRefused(t, p, login{})
				requireTraffic(t, p, l)
			} else {
				requireTraffic(t, p, login{})
			}
		}
	}
	m.interrupt() // the one that started them: theirs would be its process group
	require.Zero(t, m.ExitCode(), "Ctrl-C is an orderly end")
	stay("Ctrl-C")
	m = f.start()
	f.seen("open-1")
	stay("a restart")
	m.kill()
	stay("SIGKILL")
	f.start()
	f.seen("asks")
	stay("another restart")
	for name, p := range f.settled(names...) {
		require.Equal(t, before[name].Status, p.Status, name)
	}
}
