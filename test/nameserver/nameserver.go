// SPDX-License-Identifier: Apache-2.0

// Package nameserver gives a test a real DNS server of its own, on loopback.
package nameserver

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// Answer tells of a name, which has no dot at its end, what it has of a type (a nil body: nothing) and whether there is such a
// name. silent: the question gets no answer at all.
type Answer func(name string, of dnsmessage.Type) (body dnsmessage.ResourceBody, code dnsmessage.RCode, silent bool)

// Start serves until the test ends, and returns the address, for UDP.
func Start(tb testing.TB, answer Answer) (address string) {
	tb.Helper()
	server, err := new(net.ListenConfig).ListenPacket(context.Background(), "udp", "127.0.0.1:0")
	require.NoError(tb, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		query := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(query)
			if err != nil {
				return
			}
			if reply := answer.to(query[:n]); reply != nil {
				_, _ = server.WriteTo(reply, from) // who hears nothing asks again
			}
		}
	}()
	tb.Cleanup(func() {
		require.NoError(tb, server.Close())
		<-done
	})
	return server.LocalAddr().String()
}

// Resolver asks a server that Start starts.
func Resolver(tb testing.TB, answer Answer) *net.Resolver {
	tb.Helper()
	address := Start(tb, answer)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", address)
	}}
}

// to is the reply to a query; nil: there is none.
func (a Answer) to(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	body, code, silent := a(strings.TrimSuffix(q.Name.String(), "."), q.Type)
	if silent {
		return nil
	}
	m.Response, m.RCode, m.Additionals = true, code, nil
	if body != nil {
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}, Body: body}}
	}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}
