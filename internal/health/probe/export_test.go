// SPDX-License-Identifier: Apache-2.0

package probe

import "context"

// DialFailure gives fault and reason of a dial's error.
func DialFailure(err error) (Fault, Reason) {
	f := dialFailure(context.Background(), err)
	return f.fault, f.reason
}
