// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// How long the manager looks for namespaces that refuse: before it starts, and when it has ended.
const (
	lookFirst = 10 * time.Second
	lookLast  = 2 * time.Second
)

// refusals tells, in one sentence each, which of the watched namespaces the manager may not watch. One is enough to keep its caches
// from ever syncing, and what the libraries say of that is an error with its stack, again and again.
func (o *managerOptions) refusals(ctx context.Context, limit time.Duration, reader client.Reader) []string {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	namespaces := o.watchNamespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var refused []string
	for _, ns := range namespaces {
		if kind := o.refusedIn(ctx, reader, ns); kind != "" {
			refused = append(refused, refusal(ns, kind))
		}
	}
	return refused
}

// refusedIn returns what the manager may not list in a namespace; empty: it may, or nobody can tell.
func (o *managerOptions) refusedIn(ctx context.Context, reader client.Reader, namespace string) string {
	one := []client.ListOption{client.InNamespace(namespace), client.Limit(1)}
	if apierrors.IsForbidden(reader.List(ctx, &v1alpha1.ProxyList{}, one...)) {
		return "Proxies"
	}
	if !o.secretWatch {
		return ""
	}
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if apierrors.IsForbidden(reader.List(ctx, secrets, one...)) {
		return "Secrets"
	}
	return ""
}

func refusal(namespace, kind string) string {
	if namespace == metav1.NamespaceAll {
		return "The operator may not list the " + kind + " of all namespaces: apply the ClusterRole of config/rbac and its binding, or name namespaces in --watch-namespaces."
	}
	return fmt.Sprintf("The operator may not list the %s of namespace %s: its Role or RoleBinding there is missing, or there is no such namespace; "+
		"apply those of config/namespaced there, or take %s out of --watch-namespaces.", kind, namespace, namespace)
}

// told adds the refusals to the error with which the manager ended.
func told(err error, refusals []string) error {
	if len(refusals) == 0 {
		return err
	}
	return fmt.Errorf("%w. %s", err, strings.Join(refusals, " "))
}
