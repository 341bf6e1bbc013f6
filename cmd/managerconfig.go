// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// leaderElectionID is the name of the lease; the operator's --instance is part of it, so that two operators in one
// namespace both work.
const leaderElectionID = "proxy-operator"

func (o *managerOptions) managerConfig(scheme *runtime.Scheme) ctrl.Options {
	return ctrl.Options{
		Scheme:                        scheme,
		Cache:                         o.cacheConfig(),
		Metrics:                       o.metricsConfig(),
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaderElectionID + "-" + o.instance + ".crawl.proxy-operator.io",
		LeaderElectionNamespace:       o.leaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true, // run ends right after Start, so nothing works on without the lease
		GracefulShutdownTimeout:       ptr.To(20 * time.Second),
	}
}

// cacheConfig keeps the cache small: the watched namespaces, of Secrets the metadata without what is large in it, and no
// Helm releases, which are the largest Secrets of most clusters and never hold user data.
func (o *managerOptions) cacheConfig() cache.Options {
	c := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {
				Field:     fields.OneTermNotEqualSelector("type", "helm.sh/release.v1"),
				Transform: stripSecret,
			},
		},
	}
	for _, ns := range o.watchNamespaces {
		if c.DefaultNamespaces == nil {
			c.DefaultNamespaces = map[string]cache.Config{}
		}
		c.DefaultNamespaces[ns] = cache.Config{}
	}
	return c
}

// stripSecret drops what the operator doesn't read. The last-applied annotation holds the Secret's content in clear.
func stripSecret(obj any) (any, error) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
		m.SetAnnotations(nil)
	}
	return obj, nil
}

func (o *managerOptions) metricsConfig() metricsserver.Options {
	m := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: o.metricsSecure, CertDir: o.metricsCertPath}
	if m.CertDir == "" {
		// The library would look in a folder of the shared temporary one, where anybody may have put a certificate.
		m.CertDir = "/nonexistent" // which only root could make
	}
	if o.metricsSecure {
		m.FilterProvider = filters.WithAuthenticationAndAuthorization
		// HTTP/2 stays off: a metrics endpoint needs none of it, and CVE-2023-44487 came with it.
		m.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	}
	return m
}
