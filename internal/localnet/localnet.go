// SPDX-License-Identifier: Apache-2.0

// Package localnet knows the addresses that lead to a machine itself, to its link, and to the metadata services of clouds,
// which hand out the machine's credentials. Whoever sends requests for others must not send them there.
package localnet

import "net/netip"

// Addresses are those of the machine, its link and the clouds' metadata services.
func Addresses() []netip.Prefix {
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

// Contain reports whether address is in one of the ranges, also when it is an IPv4 address inside an IPv6 one.
func Contain(ranges []netip.Prefix, address netip.Addr) bool {
	address = address.WithZone("").Unmap()
	for _, r := range ranges {
		if r.Contains(address) {
			return true
		}
	}
	// 64:ff9b::/96 is the way to IPv4 from networks without it (RFC 6052).
	wide := address.As16()
	if nat64 := [12]byte{0, 0x64, 0xff, 0x9b}; [12]byte(wide[:12]) == nat64 {
		return Contain(ranges, netip.AddrFrom4([4]byte(wide[12:])))
	}
	return false
}
