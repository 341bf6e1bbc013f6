// SPDX-License-Identifier: Apache-2.0

package forwardproxy

import (
	"errors"
	"net/netip"
)

// errDenied is how the dialer refuses an address.
var errDenied = errors.New("address is denied")

// localAddresses are those that lead to the machine itself, to its link, and to
// the metadata services of clouds, which hand out the machine's credentials.
func localAddresses() []netip.Prefix {
	v4 := func(a, b, c, d byte, bits int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, c, d}), bits)
	}
	return []netip.Prefix{
		v4(0, 0, 0, 0, 8),
		v4(127, 0, 0, 0, 8),
		v4(169, 254, 0, 0, 16),     // link-local: metadata of most clouds
		v4(100, 100, 100, 200, 32), // metadata of Alibaba Cloud
		v4(168, 63, 129, 16, 32),   // host services of Azure
		v4(192, 0, 0, 192, 32),     // metadata of Oracle Cloud, older images
		v4(224, 0, 0, 0, 4),        // multicast
		v4(240, 0, 0, 0, 4),        // reserved, broadcast
		netip.PrefixFrom(netip.IPv6Unspecified(), 128),
		netip.PrefixFrom(netip.IPv6Loopback(), 128),
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfe, 0x80}), 10), // link-local
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0xff}), 8),        // multicast
		// fd00:ec2::/32, metadata of AWS
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0, 0x0e, 0xc2}), 32),
	}
}

// isLocal tells whether a resolved address is one of localAddresses, also as an
// IPv4 address inside an IPv6 one. What can't be read is.
func isLocal(address string) bool {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return true
	}
	ip := to.Addr().WithZone("").Unmap()
	// 64:ff9b::/96 is the way to IPv4 from networks without it (RFC 6052).
	wide := ip.As16()
	if nat64 := [12]byte{0, 0x64, 0xff, 0x9b}; [12]byte(wide[:12]) == nat64 {
		ip = netip.AddrFrom4([4]byte(wide[12:]))
	}
	for _, r := range localAddresses() {
		if r.Contains(ip) {
			return true
		}
	}
	return false
}
