#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Starts nodes, ends each in another way, and looks that the machine is as before: links, routes, firewall rules, mounts,
# cgroups, folders, settings, processes. $1 is the binary of hack/cluster.
set -euo pipefail
cluster=$1
PATH=$PATH:/usr/sbin:/sbin

state() {
	ip -brief link
	ip route
	nft list ruleset
	sort /proc/self/mountinfo
	find /sys/fs/cgroup -type d -name 'proxy-operator-node-*'
	find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'proxy-operator-node-*'
	ls -A /run /etc /opt /var/lib /var/log
	hostname
	for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
		kernel/keys/root_maxbytes net/ipv4/ip_forward; do
		cat "/proc/sys/$setting"
	done
	cat /proc/[0-9]*/comm 2>/dev/null | grep -cE '^(cluster|kubelet|kube-proxy|containerd.*|pause)$' || true
}

compare() {
	# What is left after a kill the janitor removes, a moment later.
	for _ in $(seq 100); do
		after=$(state)
		[ "$before" != "$after" ] || { echo "nothing is left after $1"; return; }
		sleep 0.2
	done
	diff <(echo "$before") <(echo "$after") || true
	echo "residue: this is left after $1" >&2
	exit 1
}

# Starts a node, waits until a command runs on it, and sends the program that started it a signal.
end_by() {
	local mark
	mark=$(mktemp)
	"$cluster" up --node -- sh -c "echo up > $mark; exec sleep 300" >/dev/null 2>&1 &
	until [ -s "$mark" ]; do
		kill -0 $! || { echo "residue: the node didn't start" >&2; exit 1; }
		sleep 0.2
	done
	kill "-$1" $!
	{ wait $!; } 2>/dev/null || true
	rm "$mark"
}

before=$(state)
"$cluster" up --node -- true 2>/dev/null
compare success
! "$cluster" up --node -- false 2>/dev/null
compare failure
end_by INT
compare Ctrl-C
end_by KILL
compare "SIGKILL of what started it"
