// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// View is the cache of one process: for each kind a position in the history and the state of the world at it. It moves
// only when it is told to.
type View struct {
	s        *Server
	position [kinds]int
	state    [kinds]map[types.NamespacedName]client.Object
}

var _ client.Reader = &View{}

// View returns a cache that has read up to behind revisions of each kind before the newest; that is time travel if
// another cache had seen more.
func (s *Server) View(behind int) *View {
	v := &View{s: s}
	for k := range kinds {
		v.state[k] = map[types.NamespacedName]client.Object{}
		v.move(k, max(0, len(s.history[k])-behind))
	}
	return v
}

// Behind returns how many revisions of a kind the view has not read.
func (v *View) Behind(k Kind) int { return len(v.s.history[k]) - v.position[k] }

// Advance reads up to n more revisions of a kind, and returns them.
func (v *View) Advance(k Kind, n int) []Event {
	from := v.position[k]
	v.move(k, min(from+n, len(v.s.history[k])))
	return v.s.history[k][from:v.position[k]]
}

func (v *View) move(k Kind, to int) {
	for _, e := range v.s.history[k][v.position[k]:to] {
		id := client.ObjectKeyFromObject(e.Object)
		if e.Type == watch.Deleted {
			delete(v.state[k], id)
		} else {
			v.state[k][id] = e.Object
		}
	}
	v.position[k] = to
}

// Get implements client.Reader.
func (v *View) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	k, err := kindOf(o)
	if err != nil {
		return err
	}
	return read(k, v.state[k], key, o)
}

// List implements client.Reader for Proxies.
func (v *View) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return listProxies(v.state[Proxies], list, opts)
}

// Keys returns the names of all Proxies that the view knows, as events at a start would.
func (v *View) Keys() []types.NamespacedName { return v.keys("") }

// Users returns the names of the Proxies that use a Secret, as far as the view knows.
func (v *View) Users(secret string) []types.NamespacedName { return v.keys(secret) }

func (v *View) keys(secret string) []types.NamespacedName {
	var out []types.NamespacedName
	for id, o := range v.state[Proxies] {
		if p, ok := o.(*v1alpha1.Proxy); ok && (secret == "" || uses(p, secret)) {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	return out
}
