// SPDX-License-Identifier: Apache-2.0

package controllers

// What the operator may do, and why. config/rbac and the namespaced Roles are generated from these lines.
//
// Proxies: read, and write the ledger and the finalizer; status by its own subresource. It never creates or deletes one.
// +kubebuilder:rbac:groups=crawl.proxy-operator.io,resources=proxies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=crawl.proxy-operator.io,resources=proxies/status,verbs=patch
//
// Secrets: cloud-init and credentials; list and watch for their metadata, so that a rotation is seen at once. With
// --secret-watch=false only get is needed, and list where there are accounts of type kubernetes.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
//
// Pods, and a Secret beside each: what accounts of type kubernetes make and remove. Neither is ever changed, and no pod is
// watched: all looks go to the API server.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;create;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;delete
//
// Events on transitions.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// The UID of kube-system is the cluster's identity, part of the name of everything that the operator makes.
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
//
// In its own namespace alone: the ConfigMap of a sweep for orphans that a person must confirm, and the Event about it. The
// names depend on the accounts, and create can't be bound to a name.
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;update;delete,namespace=system,roleName=own-namespace-role
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=system,roleName=own-namespace-role
