// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// secret is the password of every request. It must not come back in an error or an instance.
const secret = "s3cret-of-the-suite"

// scene is a world in which one case plays.
type scene struct {
	t            testing.TB
	ctx          context.Context //nolint:containedctx // the test's own, which lives as long as the scene
	w            World
	why          string
	p            providers.Provider
	traits       providers.Traits
	installation string
	owners       int
}

func newScene(t testing.TB, w World, why string) *scene {
	t.Helper()
	s := &scene{
		t: t, ctx: t.Context(), w: w, why: why,
		installation: providers.InstallationID("providertest", t.Name()),
	}
	s.p = s.process()
	s.traits = s.p.Traits()
	return s
}

// process is another process of the operator. All that its provider answers is checked.
func (s *scene) process() providers.Provider {
	return &checked{t: s.t, provider: s.w.Process(), account: s.w.Account, zones: s.w.Zones, why: s.why}
}

// zone is the account's first, or none.
func (s *scene) zone() string {
	if len(s.w.Zones) == 0 {
		return ""
	}
	return s.w.Zones[0]
}

// request asks for the first instance of a new Proxy.
func (s *scene) request() providers.CreateRequest {
	s.owners++
	return s.derive(providers.CreateRequest{
		Key: providers.Key{
			InstallationID: s.installation, ProxyUID: fmt.Sprintf("5d1c0000-0000-4000-8000-%012d", s.owners),
			Incarnation: 1, Account: s.w.Account, Zone: s.zone(),
		},
		Tags: providers.Tags{
			Namespace: "crawl", Name: fmt.Sprintf("exit-%d", s.owners), SpecHash: "v1:9f86d081884c7d65",
		},
		Port: 3128, Protocol: "HTTP", Username: "crawler", Password: secret,
	}, func(*providers.Key) {})
}

// derive returns the request with another key, and with the name and the tags that go with it.
func (s *scene) derive(req providers.CreateRequest, edit func(*providers.Key)) providers.CreateRequest {
	edit(&req.Key)
	req.Name = req.Key.Name()
	req.Tags.ManagedBy = providers.ManagedBy
	req.Tags.Installation = req.Key.InstallationID
	req.Tags.OwnerUID = req.Key.ProxyUID
	req.Tags.Incarnation = req.Key.Incarnation
	return req
}

func (s *scene) create(p providers.Provider, req providers.CreateRequest) providers.Instance {
	s.t.Helper()
	i, err := p.Create(s.ctx, req)
	require.NoError(s.t, err, s.why)
	return i
}

func (s *scene) list(p providers.Provider, sel providers.Selector) []providers.Instance {
	s.t.Helper()
	list, err := p.ListByTag(s.ctx, sel)
	require.NoError(s.t, err, s.why)
	return list
}

// of lists what a fresh process finds of the request's owner.
func (s *scene) of(req providers.CreateRequest) []providers.Instance {
	s.t.Helper()
	return s.list(s.process(), providers.Selector{Installation: req.Key.InstallationID, OwnerUID: req.Key.ProxyUID})
}

// only returns the one instance of the request's owner.
func (s *scene) only(req providers.CreateRequest) providers.Instance {
	s.t.Helper()
	found := s.of(req)
	require.Len(s.t, found, 1, s.why)
	require.Equal(s.t, req.Tags, found[0].Tags, s.why)
	return found[0]
}

// none checks that nothing of the request's owner is there, for good.
func (s *scene) none(req providers.CreateRequest) {
	s.t.Helper()
	require.Empty(s.t, s.of(req), s.why)
}

// counted checks that there are n machines, also those that no list shows because they carry no tags.
func (s *scene) counted(n int) {
	s.t.Helper()
	if s.w.Count != nil {
		require.Equal(s.t, n, s.w.Count(), "%s: there are machines that no list shows", s.why)
	}
}

// exact waits out the lag of reads.
func (s *scene) exact() { s.w.pass(s.traits.Lag) }

// settle waits until nothing that was sent can take effect any more.
func (s *scene) settle() { s.w.settle(s.traits) }

// await waits until the cloud has come so far.
func (s *scene) await(what string, cond func() bool) {
	s.t.Helper()
	patience := s.w.Patience
	if patience == 0 {
		patience = 2 * time.Minute
	}
	step := 20 * time.Millisecond
	for waited := time.Duration(0); !cond(); waited += step {
		if waited > patience {
			require.FailNow(s.t, "waited in vain: "+what, s.why)
		}
		step = min(step*3/2, time.Second)
		s.w.pass(step)
	}
}

// running waits until the instance at ref runs.
func (s *scene) running(ref providers.Ref) providers.Instance {
	s.t.Helper()
	var got providers.Instance
	s.await(ref.String()+" runs", func() bool {
		i, err := s.p.Get(s.ctx, ref)
		if providers.Is(err, providers.NotFound) {
			return false // not seen yet
		}
		require.NoError(s.t, err, s.why)
		got = i
		return i.State == providers.StateRunning
	})
	return got
}

// remove deletes the instance at ref until the cloud says that it is gone, and waits until every read says so too.
func (s *scene) remove(ref providers.Ref) {
	s.t.Helper()
	s.await(ref.String()+" is gone", func() bool {
		err := s.p.Delete(s.ctx, ref)
		if providers.Is(err, providers.NotFound) {
			return true
		}
		require.NoError(s.t, err, s.why)
		return false
	})
	s.exact()
	s.absent(ref)
}

// absent checks that no read knows the instance at ref.
func (s *scene) absent(ref providers.Ref) {
	s.t.Helper()
	_, err := s.p.Get(s.ctx, ref)
	require.Equal(s.t, providers.NotFound, providers.ReadClass(err), "%s: %v", s.why, err)
	for _, i := range s.list(s.p, providers.Selector{Installation: s.installation}) {
		require.NotEqual(s.t, ref, i.Ref, s.why)
	}
	if s.w.Exists != nil {
		require.False(s.t, s.w.Exists(ref), s.why)
	}
}

// refs lists the places of instances.
func refs(list []providers.Instance) []providers.Ref {
	out := make([]providers.Ref, 0, len(list))
	for _, i := range list {
		out = append(out, i.Ref)
	}
	return out
}
