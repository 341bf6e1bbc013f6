// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/proxy-operator/proxy-operator/internal/localnet"
)

// errDenied is how the dialer refuses an address.
var errDenied = errors.New("address is denied")

// DefaultDeny are the addresses that a user of the cluster could abuse the
// operator's probes for: those of the machine itself, of its link, and of the
// clouds' metadata services.
func DefaultDeny() []netip.Prefix { return localnet.Addresses() }

// orDefault is the list that an unset one means.
func orDefault(ranges []netip.Prefix) []netip.Prefix {
	if ranges == nil {
		return DefaultDeny()
	}
	return ranges
}

// dialer connects, but never to an address in the ranges. It looks at the address
// when the name is resolved, so that no name leads around it.
func (p *Prober) dialer(ranges []netip.Prefix) *net.Dialer {
	return &net.Dialer{
		Resolver:      p.Resolver,
		KeepAlive:     -1, // a probe is short
		FallbackDelay: -1, // one address after the other: a race leaves a goroutine behind
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || localnet.Contain(ranges, to.Addr()) {
				return errDenied
			}
			return nil
		},
	}
}

// destination is a target's URL, taken apart.
type destination struct {
	tls  bool
	host string // without brackets
	port string
	// hostPort is for tunnels and dialing, authority for the Host header.
	hostPort, authority string
	path                string // with the query, or only /
}

// CheckTarget reports why no probe could ask for a URL, wherever it leads: the reason in fixed words, which hold nothing of
// the URL, since there may be a password in it. nil: one could.
func CheckTarget(raw string) error {
	_, err := parseTarget(raw, nil)
	var f *failure
	if errors.As(err, &f) {
		return errors.New(f.detail)
	}
	return err
}

// parseTarget takes a URL apart and refuses what no probe may ask for. What a host
// name stands for is seen when it is dialled.
func parseTarget(raw string, ranges []netip.Prefix) (destination, error) {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Opaque != "" || (u.Scheme != "http" && u.Scheme != "https") {
		return destination{}, byTarget(ReasonTargetDenied, "the URL is not absolute, http or https, without user information")
	}
	d := destination{tls: u.Scheme == "https", host: u.Hostname(), port: u.Port(), path: u.RequestURI(), authority: u.Host}
	if d.port == "" {
		d.port = "80"
		if d.tls {
			d.port = "443"
		}
	}
	d.hostPort = net.JoinHostPort(d.host, d.port)
	return d, d.check(ranges)
}

func (d *destination) check(ranges []netip.Prefix) error {
	if port, err := strconv.ParseUint(d.port, 10, 16); err != nil || port == 0 {
		return byTarget(ReasonTargetDenied, "the port is not a number from 1 to 65535")
	}
	if strings.ContainsFunc(d.path, func(c rune) bool { return c <= ' ' || c >= 0x7f }) { // of the query; the path is escaped
		return byTarget(ReasonTargetDenied, "the query has a blank or another character that must be written with %")
	}
	if address, err := netip.ParseAddr(d.host); err == nil {
		if address.Zone() != "" || localnet.Contain(ranges, address) {
			return byTarget(ReasonTargetDenied, "the address is in a range that no probe may ask for")
		}
		return nil
	}
	if !isName(d.host) {
		return byTarget(ReasonTargetDenied, "the host is neither a name nor an address")
	}
	name := strings.ToLower(strings.TrimSuffix(d.host, "."))
	if local := name == "localhost" || strings.HasSuffix(name, ".localhost"); local && localnet.Contain(ranges, netip.IPv6Loopback()) {
		return byTarget(ReasonTargetDenied, "localhost is in a range that no probe may ask for")
	}
	return nil
}

// isName tells whether a host is a name of letters, digits, hyphens and
// underscores. One that ends in a number isn't: 127.1 and 0x7f000001 are addresses
// to many resolvers.
func isName(host string) bool {
	host = strings.TrimSuffix(host, ".")
	for i := range len(host) {
		c := host[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	return last != "" && len(host) <= 253 && strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x")
}
