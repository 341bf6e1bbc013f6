// SPDX-License-Identifier: Apache-2.0

// Package node runs a whole Kubernetes of one node on this machine: control plane, controller manager, scheduler,
// containerd, kubelet, kube-proxy and DNS. Pods are real, and nothing of them touches the machine: everything runs in
// namespaces of its own (mount, network, process, cgroup, IPC, host name). The network namespace has no way out, and no
// way in but [Node.Command], which runs programs inside. The first process of the process namespace holds it all: when it
// is killed, the kernel ends the rest and takes the mounts, the network and its rules with it. It needs Linux and root.
//
// Reading order: node_linux.go (what happens on the machine), stages_linux.go (how the first process gets inside),
// inside_linux.go and network_linux.go (how it is furnished), services_linux.go (what runs there), command_linux.go (how
// programs get there later), running_linux.go (how a node is found and stopped from elsewhere).
package node

import "io"

// Options say what to start.
type Options struct {
	// AuditPolicy is a file with the API server's audit policy; "" stands for no audit. The log is audit.log among the
	// others.
	AuditPolicy string
	// Log is told what happens.
	Log io.Writer
}
