// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// The node's own network. The addresses are private ones; as nothing leads out, they may be in use elsewhere.
const (
	address     = "10.250.0.1"
	serviceCIDR = "10.96.0.0/16"
	serviceIP   = "10.96.0.1"
	podCIDR     = "10.244.0.0/16"
	nodePodCIDR = "10.244.0.0/24"
	device      = "node0"
)

// makeNetwork makes the node's network. There is no default route: what is neither a pod nor a Service can't be reached, and
// says so at once. The route to Services leads nowhere; kube-proxy's rules send what takes it to a pod.
func makeNetwork() error {
	for _, args := range []string{
		"link set lo up",
		"link add " + device + " type veth peer name " + device + "-peer", // a pair within: the address needs a device
		"address add " + address + "/24 dev " + device,
		"link set " + device + " up",
		"link set " + device + "-peer up",
		"route add " + serviceCIDR + " dev " + device,
	} {
		var output bytes.Buffer
		cmd := exec.Command("ip", strings.Fields(args)...) //nolint:noctx // it takes no time
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("set up the network: ip %s: %w: %s", args, err, strings.TrimSpace(output.String()))
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
		return fmt.Errorf("set up the network: %w", err)
	}
	return nil
}
