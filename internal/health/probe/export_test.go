// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net/netip"
)

// Denied is denied with the default list.
func Denied(address netip.Addr) bool { return denied(DefaultDeny(), address) }

// DialFailure gives fault and reason of a dial's error.
func DialFailure(err error) (Fault, Reason) {
	f := dialFailure(context.Background(), err)
	return f.fault, f.reason
}
