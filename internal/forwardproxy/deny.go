// SPDX-License-Identifier: Apache-2.0

package forwardproxy

import (
	"errors"
	"net/netip"

	"github.com/proxy-operator/proxy-operator/internal/localnet"
)

// errDenied is how the dialer refuses an address.
var errDenied = errors.New("address is denied")

// isLocal tells whether a resolved address leads to the machine itself, its link
// or a metadata service. What can't be read does.
func isLocal(address string) bool {
	to, err := netip.ParseAddrPort(address)
	return err != nil || localnet.Contain(localnet.Addresses(), to.Addr())
}
