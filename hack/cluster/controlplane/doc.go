// SPDX-License-Identifier: Apache-2.0

// Package controlplane provides the binaries of a Kubernetes control plane
// (etcd, kube-apiserver, kubectl) and runs one on loopback, for tests and for
// the demo. It has no nodes: objects are stored, validated and watched as in
// any cluster, but no pod ever runs.
//
// Assets finds or builds the binaries; Start runs them. Reading order:
// assets.go, build.go, start.go.
package controlplane
