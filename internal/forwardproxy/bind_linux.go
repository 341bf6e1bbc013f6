// SPDX-License-Identifier: Apache-2.0

package forwardproxy

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// bindLater binds the address and leaves the choice of the port to connect, so
// that ports are shared between origins and don't run out.
func bindLater(fd int, addr netip.Addr) error {
	err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	// Some emulated kernels don't know the option and can do without.
	if err != nil && !errors.Is(err, unix.ENOPROTOOPT) {
		return err
	}
	return bindSocket(fd, addr)
}
