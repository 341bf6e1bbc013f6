// SPDX-License-Identifier: Apache-2.0

// Package dns answers for the names of Services, as a cluster's DNS does, and for no others: a test cluster has nobody to
// ask. It takes UDP only and knows IPv4.
package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// Domain is that of the cluster.
	Domain = "cluster.local"
	// A short life, as a Service that is made again has another address.
	ttl = 5 // s
	// maxQuery is more than any query of one name takes.
	maxQuery = 4096
)

// Services tells the addresses of a Service: its own, or those of its ready endpoints if it has none. found is false if
// there is no such Service.
type Services func(namespace, name string) (addresses []netip.Addr, found bool)

// Serve answers queries until ctx ends, and then closes the connection.
func Serve(ctx context.Context, conn net.PacketConn, services Services) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	query := make([]byte, maxQuery)
	for {
		n, from, err := conn.ReadFrom(query)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("serve DNS: %w", err)
		case err != nil:
			continue // the client of an earlier answer has gone
		}
		if reply := answer(query[:n], services); reply != nil {
			_, _ = conn.WriteTo(reply, from) // a client that hears nothing asks again
		}
	}
}

// answer is nil for what is no query.
func answer(query []byte, services Services) []byte {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil || header.Response {
		return nil
	}
	question, err := parser.Question()
	if err != nil {
		return nil
	}
	addresses, code := resolve(question, services)
	reply := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: header.ID, Response: true, OpCode: header.OpCode, RecursionDesired: header.RecursionDesired,
			Authoritative: true, RecursionAvailable: true, RCode: code,
		},
		Questions: []dnsmessage.Question{question},
	}
	for _, a := range addresses {
		reply.Answers = append(reply.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: ttl},
			Body:   &dnsmessage.AResource{A: a.As4()},
		})
	}
	packed, err := reply.Pack()
	if err != nil {
		return nil
	}
	return packed
}

func resolve(q dnsmessage.Question, services Services) ([]netip.Addr, dnsmessage.RCode) {
	name, ours := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")), ".svc."+Domain)
	labels := strings.Split(name, ".")
	if !ours || len(labels) != 2 {
		return nil, dnsmessage.RCodeNameError
	}
	addresses, found := services(labels[1], labels[0])
	switch {
	case !found:
		return nil, dnsmessage.RCodeNameError
	case q.Type != dnsmessage.TypeA:
		return nil, dnsmessage.RCodeSuccess // the name exists, but has no such record
	}
	return addresses, dnsmessage.RCodeSuccess
}
