// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Watch returns the Services of a cluster, kept up to date until ctx ends.
func Watch(ctx context.Context, config *rest.Config) (Services, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watch Services: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	services, slices := factory.Core().V1().Services().Lister(), factory.Discovery().V1().EndpointSlices().Lister()
	factory.StartWithContext(ctx)
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, errors.Join(fmt.Errorf("watch %s: not synced", kind), ctx.Err())
		}
	}
	return func(namespace, name string) ([]netip.Addr, bool) {
		service, err := services.Services(namespace).Get(name)
		if err != nil {
			return nil, false
		}
		if ip, err := netip.ParseAddr(service.Spec.ClusterIP); err == nil {
			return []netip.Addr{ip}, true
		}
		of := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: name})
		all, err := slices.EndpointSlices(namespace).List(of)
		if err != nil {
			return nil, true
		}
		return endpoints(service, all), true
	}, nil
}

// endpoints are the addresses of a Service without one of its own.
func endpoints(service *corev1.Service, all []*discoveryv1.EndpointSlice) []netip.Addr {
	var out []netip.Addr
	for _, slice := range all {
		for _, e := range slice.Endpoints {
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready
			if !ready && !service.Spec.PublishNotReadyAddresses {
				continue
			}
			for _, a := range e.Addresses {
				if ip, err := netip.ParseAddr(a); err == nil && ip.Is4() {
					out = append(out, ip)
				}
			}
		}
	}
	return out
}
