// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// maxUserData is the limit of spec.cloudInit.inline, which holds for Secrets as well.
const maxUserData = 65536

// secretIndex finds the Proxies that use a Secret.
const secretIndex = "secrets"

// Secrets reads the content of Secrets. With a metadata watch each version of a Secret is read once, so that a fleet
// that shares one costs one read a rotation; without it (Metadata nil) every call is a read.
type Secrets struct {
	Metadata client.Reader // cached metadata, or nil
	Live     client.Reader

	mu    sync.Mutex
	known map[types.NamespacedName]secretContent
}

type secretContent struct {
	uid     types.UID
	version string
	data    map[string][]byte
}

// get returns the Secret's data; fresh asks the API server whatever is known. A Secret that isn't there is NotFound.
func (s *Secrets) get(ctx context.Context, id types.NamespacedName, fresh bool) (map[string][]byte, error) {
	if s.Metadata != nil && !fresh {
		var meta metav1.PartialObjectMetadata
		meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := s.Metadata.Get(ctx, id, &meta)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		// One that the cache lacks may have been made a moment ago, in the same kubectl apply as its Proxy.
		if c, ok := s.lookup(id); ok && err == nil && c.uid == meta.UID && c.version == meta.ResourceVersion {
			return c.data, nil
		}
	}
	var sec corev1.Secret
	if err := s.Live.Get(ctx, id, &sec); err != nil {
		s.forget(id)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[types.NamespacedName]secretContent{}
	}
	if s.Metadata != nil {
		s.known[id] = secretContent{sec.UID, sec.ResourceVersion, sec.Data}
	}
	return sec.Data, nil
}

func (s *Secrets) lookup(id types.NamespacedName) (secretContent, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.known[id]
	return c, ok
}

func (s *Secrets) forget(id types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, id)
}

// resolveCloudInit returns the user data, from the spec or from the Secret that it names; empty if there is none.
func (r *ProxyReconciler) resolveCloudInit(ctx context.Context, p *v1alpha1.Proxy, fresh bool) (string, error) {
	ci := p.Spec.CloudInit
	switch {
	case ci == nil:
		return "", nil
	case ci.SecretRef == nil:
		return ci.Inline, nil
	}
	problem := func(format string, args ...any) error {
		return &Problem{v1alpha1.ReasonCloudInitError, fmt.Sprintf(format, args...), secretPoll}
	}
	data, err := r.Secrets.get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: ci.SecretRef.Name}, fresh)
	switch {
	case apierrors.IsNotFound(err):
		return "", problem("spec.cloudInit.secretRef: Secret %q is not in namespace %q; create it with the key %q.", ci.SecretRef.Name, p.Namespace, ci.SecretRef.Key)
	case apierrors.IsForbidden(err):
		return "", problem("spec.cloudInit.secretRef: the operator may not read Secret %q in namespace %q; grant it get on Secrets there.", ci.SecretRef.Name, p.Namespace)
	case err != nil:
		return "", fmt.Errorf("read cloud-init Secret: %w", err)
	}
	raw, ok := data[ci.SecretRef.Key]
	switch {
	case !ok || len(raw) == 0:
		return "", problem("spec.cloudInit.secretRef: Secret %q has no key %q, or it is empty; add it, or name another key.", ci.SecretRef.Name, ci.SecretRef.Key)
	case len(raw) > maxUserData:
		return "", problem("spec.cloudInit.secretRef: key %q of Secret %q is over %d bytes; make it shorter.", ci.SecretRef.Key, ci.SecretRef.Name, maxUserData)
	case !utf8.Valid(raw):
		return "", problem("spec.cloudInit.secretRef: key %q of Secret %q is not UTF-8 text; cloud-init user data is text.", ci.SecretRef.Key, ci.SecretRef.Name)
	}
	return string(raw), nil
}

// resolveAuth returns the proxy's user name and password; empty ones if it asks for none.
func (r *ProxyReconciler) resolveAuth(ctx context.Context, p *v1alpha1.Proxy, fresh bool) (username, password string, err error) {
	name := p.Spec.CredentialsSecret()
	if name == "" {
		return "", "", nil
	}
	path := "spec.auth.secretRef: "
	if p.Spec.Mode == v1alpha1.ModeExternal {
		path = "spec.endpoint.auth.secretRef: "
	}
	problem := func(format string, args ...any) error {
		return &Problem{v1alpha1.ReasonAuthError, path + fmt.Sprintf(format, args...), secretPoll}
	}
	data, err := r.Secrets.get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: name}, fresh)
	switch {
	case apierrors.IsNotFound(err):
		return "", "", problem("Secret %q is not in namespace %q; create it with the keys username and password.", name, p.Namespace)
	case apierrors.IsForbidden(err):
		return "", "", problem("the operator may not read Secret %q in namespace %q; grant it get on Secrets there.", name, p.Namespace)
	case err != nil:
		return "", "", fmt.Errorf("read auth Secret: %w", err)
	}
	u, pw := data[corev1.BasicAuthUsernameKey], data[corev1.BasicAuthPasswordKey]
	if !usable(u) || !usable(pw) || bytes.ContainsRune(u, ':') { // RFC 7617 has no way to send a colon in a user name
		return "", "", problem("Secret %q needs the keys username and password, each one line of text, the user name without a colon.", name)
	}
	return string(u), string(pw), nil
}

// usable reports whether a credential can be sent in a Basic header and kept in a file of one line.
func usable(b []byte) bool {
	for _, c := range b {
		if c < 0x20 || c == 0x7f {
			return false
		}
	}
	return len(b) > 0 && utf8.Valid(b)
}

// usedSecrets lists the Secrets that a Proxy uses, for the index.
func usedSecrets(o client.Object) []string {
	p, ok := o.(*v1alpha1.Proxy)
	if !ok {
		return nil
	}
	var names []string
	if p.Spec.CloudInit != nil && p.Spec.CloudInit.SecretRef != nil {
		names = append(names, p.Spec.CloudInit.SecretRef.Name)
	}
	if n := p.Spec.CredentialsSecret(); n != "" {
		names = append(names, n)
	}
	return names
}

// proxiesForSecret maps a Secret to the Proxies that use it: rotating one is an event for each of them.
func (r *ProxyReconciler) proxiesForSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	var list v1alpha1.ProxyList
	err := r.List(ctx, &list, client.InNamespace(secret.GetNamespace()), client.MatchingFields{secretIndex: secret.GetName()})
	if err != nil {
		log.FromContext(ctx).Error(err, "list Proxies that use a Secret", "secret", secret.GetName())
		return nil // the next poll sees the change
	}
	reqs := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		reqs = append(reqs, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return reqs
}
