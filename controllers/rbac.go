// SPDX-License-Identifier: Apache-2.0

package controllers

// What the operator may do, and why. config/rbac and the namespaced Roles are generated from these lines.
//
// Proxies: read, and write the ledger and the finalizer; status by its own subresource. It never creates or deletes one.
// +kubebuilder:rbac:groups=crawl.proxy-operator.io,resources=proxies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=crawl.proxy-operator.io,resources=proxies/status,verbs=patch
//
// Secrets: cloud-init and credentials; list and watch for their metadata, so that a rotation is seen at once. With
// --secret-watch=false only get is needed.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
//
// Events on transitions.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// The UID of kube-system is the cluster's identity, part of the name of everything that the operator makes.
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
