// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of proxy-operator: the Proxy kind, its conditions and reasons, and the annotations that
// users set on it.
// +kubebuilder:object:generate=true
// +groupName=crawl.proxy-operator.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: "crawl.proxy-operator.io", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Proxy{}, &ProxyList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
