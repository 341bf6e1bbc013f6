// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

func TestAReplyIsCheckedForAllThatItTells(t *testing.T) {
	want := target{name: "p", ip: "127.1.2.3"}
	good := seen{Scheme: "https", From: "127.1.2.3", Path: "/p/1"}
	cases := map[string]struct {
		why     string
		reply   reply
		problem string
	}{
		"the origin's answer":           {why: "it is as it should be", reply: reply{status: 200, seen: good}},
		"no connection":                 {why: "nothing came", reply: reply{err: errors.New("refused")}, problem: "refused"},
		"a tunnel that breaks":          {why: "CONNECT alone is no answer", reply: reply{status: 200, err: errors.New("EOF")}, problem: "EOF"},
		"a refusal":                     {why: "the status says more than the client's error", reply: reply{status: 407, err: errors.New("x")}, problem: "status 407"},
		"the answer to another request": {why: "somebody mixes them up", reply: reply{status: 200, seen: seen{"https", "127.1.2.3", "/p/2"}}, problem: `the origin was asked for "/p/2"`},
		"plain HTTP for HTTPS":          {why: "a proxy must not take TLS off", reply: reply{status: 200, seen: seen{"http", "127.1.2.3", "/p/1"}}, problem: `the origin was asked by "http"`},
		"from another address":          {why: "the request went past the proxy", reply: reply{status: 200, seen: seen{"https", "127.0.0.1", "/p/1"}}, problem: "the origin heard from 127.0.0.1"},
		"an empty answer":               {why: "somebody else answers", reply: reply{status: 200}, problem: `the origin was asked by ""`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.problem, c.reply.problem(want, "https", "/p/1"), c.why)
		})
	}
}

// startProxy runs a real forward proxy that asks for a password.
func startProxy(t *testing.T) target {
	t.Helper()
	server, err := forwardproxy.New(forwardproxy.Config{Username: "u", Password: "p:/@"})
	require.NoError(t, err)
	listener, err := forwardproxy.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	at := listener.Addr().String()
	host, _, err := net.SplitHostPort(at)
	require.NoError(t, err)
	return target{name: "p", ip: host, at: at, username: "u", password: "p:/@"}
}

func TestRequestsThroughARealProxyAreToldApart(t *testing.T) {
	o, err := startOrigin(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.close()) })
	through := startProxy(t)
	for _, scheme := range schemes {
		r := o.visit(t.Context(), through, scheme, "/x")
		require.Empty(t, r.problem(through, scheme, "/x"))
		require.Equal(t, "200", outcome(r, ""))

		r = o.visit(t.Context(), through.with("wrong"), scheme, "/x")
		require.Equal(t, http.StatusProxyAuthRequired, r.status)

		nobody := target{ip: "127.0.0.1", at: "127.0.0.1:1"}
		r = o.visit(t.Context(), nobody, scheme, "/x")
		require.NotEmpty(t, r.problem(nobody, scheme, "/x"))
		require.Equal(t, "none", outcome(r, "refused"))
	}
}

func TestTheOriginsCertificateIsOfItsOwnCAAlone(t *testing.T) {
	o, err := startOrigin(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.close()) })
	other, err := startOrigin(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.close()) })
	through := startProxy(t)
	other.addrs = o.addrs // the other's clients come here
	r := other.visit(t.Context(), through, "https", "/x")
	require.ErrorContains(t, r.err, "certificate")
}

func TestNoNamesStandForAll(t *testing.T) {
	require.True(t, asked(nil, "a"))
	require.True(t, asked([]string{"a"}, "a"))
	require.False(t, asked([]string{"a"}, "b"))
	require.Equal(t, []string{"a"}, appendNew(appendNew(appendNew(nil, "a"), ""), "a"))
}
