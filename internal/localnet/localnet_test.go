// SPDX-License-Identifier: Apache-2.0

package localnet_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/localnet"
)

func TestAbusableAddressesAreDenied(t *testing.T) {
	cases := map[string]struct {
		why  string
		want bool
	}{
		"127.0.0.1":          {"loopback", true},
		"127.255.0.9":        {"all of it", true},
		"::1":                {"", true},
		"0.0.0.0":            {"the machine itself", true},
		"::":                 {"", true},
		"169.254.169.254":    {"metadata of most clouds", true},
		"fe80::1":            {"link-local", true},
		"fe80::1%eth0":       {"a zone must not lead around the list", true},
		"fd00:ec2::254":      {"metadata of AWS", true},
		"100.100.100.200":    {"metadata of Alibaba Cloud", true},
		"168.63.129.16":      {"host services of Azure", true},
		"192.0.0.192":        {"metadata of Oracle Cloud", true},
		"224.0.0.1":          {"multicast", true},
		"ff02::1":            {"", true},
		"255.255.255.255":    {"broadcast", true},
		"::ffff:127.0.0.1":   {"IPv4 within IPv6", true},
		"64:ff9b::7f00:1":    {"the same by NAT64", true},
		"64:ff9b::a9fe:a9fe": {"the same", true},
		"64:ff9b::808:808":   {"the way to IPv4 for those without", false},
		"10.0.0.1":           {"a private network may hold the judge", false},
		"8.8.8.8":            {"", false},
		"2001:db8::1":        {"", false},
		"100.100.100.201":    {"only the one address", false},
		"fd00:ec3::254":      {"", false},
	}
	for address, tc := range cases {
		t.Run(address, func(t *testing.T) {
			require.Equal(t, tc.want, localnet.Contain(localnet.Addresses(), netip.MustParseAddr(address)), tc.why)
		})
	}
	require.False(t, localnet.Contain(nil, netip.MustParseAddr("127.0.0.1")), "no ranges contain nothing")
}
