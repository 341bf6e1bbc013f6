// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// login is what a proxy asks its clients for; empty: nothing.
type login struct{ username, password string }

// wanted is what the users know: which Proxies they created and didn't delete, and what they wrote to the Secrets that
// many share. The specs are with the API server.
type wanted struct {
	edits atomic.Int64 // all that users changed

	mu       sync.Mutex
	proxies  map[string]types.UID // by name
	userData map[string]string    // by Secret
	logins   map[string]login     // by Secret
}

func newWanted() *wanted {
	return &wanted{proxies: map[string]types.UID{}, userData: map[string]string{}, logins: map[string]login{}}
}

func (w *wanted) created(name string, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.proxies[name] = uid
	w.edits.Add(1)
}

func (w *wanted) deleted(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.proxies, name)
	w.edits.Add(1)
}

func (w *wanted) wroteUserData(secret, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.userData[secret] = text
	w.edits.Add(1)
}

func (w *wanted) wroteLogin(secret string, l login) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logins[secret] = l
	w.edits.Add(1)
}

func (w *wanted) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.proxies)
}

// copy is one that nobody changes any more.
func (w *wanted) copy() *wanted {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &wanted{proxies: maps.Clone(w.proxies), userData: maps.Clone(w.userData), logins: maps.Clone(w.logins)}
}

// dataOf is the user data that the machine of a Proxy is to have.
func (w *wanted) dataOf(p *v1alpha1.Proxy) string {
	c := p.Spec.CloudInit
	switch {
	case c == nil:
		return ""
	case c.SecretRef != nil:
		return w.userData[c.SecretRef.Name]
	default:
		return c.Inline
	}
}

// loginOf is what the proxy is to ask for.
func (w *wanted) loginOf(p *v1alpha1.Proxy) login { return w.logins[p.Spec.CredentialsSecret()] }
