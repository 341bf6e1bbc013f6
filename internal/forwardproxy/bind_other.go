// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package forwardproxy

import "net/netip"

func bindLater(fd int, addr netip.Addr) error { return bindSocket(fd, addr) }
