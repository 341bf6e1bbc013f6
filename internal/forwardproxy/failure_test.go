// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
	"github.com/proxy-operator/proxy-operator/test/nameserver"
)

// resolver speaks to a real DNS server of the test's own, which knows one name.
func resolver(t *testing.T, known string) *net.Resolver {
	t.Helper()
	return nameserver.Resolver(t, knowing(known))
}

func knowing(known string) nameserver.Answer {
	return func(name string, of dnsmessage.Type) (body dnsmessage.ResourceBody, code dnsmessage.RCode, silent bool) {
		switch {
		case strings.HasPrefix(name, "slow.test"): // whatever this machine's search domains add
			silent = true
		case name != known:
			code = dnsmessage.RCodeNameError
		case of == dnsmessage.TypeA:
			body = &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}
		}
		return body, code, silent
	}
}

// muteResolver asks the same server for what it doesn't answer, and soon gives
// up: the resolver's own five seconds would go on after a test.
func muteResolver(t *testing.T) *net.Resolver {
	t.Helper()
	address, err := net.ResolveUDPAddr("udp", nameserver.Start(t, knowing("")))
	require.NoError(t, err)
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		conn, err := net.DialUDP("udp", nil, address)
		return impatient{conn}, err
	}}
}

type impatient struct{ *net.UDPConn }

func (c impatient) SetDeadline(time.Time) error {
	return c.UDPConn.SetDeadline(clock.RealClock{}.Now().Add(50 * time.Millisecond))
}

// closedPort is a port of 127.0.0.1 on which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := forwardproxy.Listen(context.Background(), "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

func TestFailuresSayWhoFailedAndHow(t *testing.T) {
	silent := rawOrigin(t, func(_ *net.TCPConn, reader *bufio.Reader) { _, _ = reader.ReadBytes(0) })
	garbage, _ := answering(t, "SSH-2.0-OpenSSH\r\n\r\n")
	mute, _ := answering(t, "")
	refused := closedPort(t)
	short := forwardproxy.Timeouts{Response: 50 * time.Millisecond}
	names := resolver(t, "known.test")
	cases := map[string]struct {
		why, target string
		cfg         forwardproxy.Config
		onlyForward bool
		wantStatus  int
		wantKind    string
	}{
		"nothing listens":       {"", refused, forwardproxy.Config{}, false, 502, "connection_refused"},
		"the name is unknown":   {"", "gone.test:80", forwardproxy.Config{Resolver: names}, false, 502, "dns_error"},
		"the resolver is mute":  {"", "slow.test:80", forwardproxy.Config{Resolver: muteResolver(t)}, false, 504, "dns_timeout"},
		"connecting takes long": {"", silent, forwardproxy.Config{Timeouts: forwardproxy.Timeouts{Dial: 1}}, false, 504, "connection_timeout"},
		"no answer in time":     {"", silent, forwardproxy.Config{Timeouts: short}, true, 504, "http_response_timeout"},
		"closed without answer": {"", mute, forwardproxy.Config{}, true, 502, "connection_terminated"},
		"another protocol":      {"", garbage, forwardproxy.Config{}, true, 502, "http_protocol_error"},
	}
	for name, tc := range cases {
		for method, request := range map[string]string{
			http.MethodGet:     "GET http://" + tc.target + "/ HTTP/1.1\r\nHost: x\r\n\r\n",
			http.MethodConnect: "CONNECT " + tc.target + " HTTP/1.1\r\nHost: x\r\n\r\n",
		} {
			if tc.onlyForward && method == http.MethodConnect {
				continue // what goes on within a tunnel isn't the proxy's to judge
			}
			t.Run(name+" by "+method, func(t *testing.T) {
				p := startProxy(t, tc.cfg)
				c := dialRaw(t, p.address)
				c.say(request)
				res, body := c.response(method)
				require.Equal(t, tc.wantStatus, res.StatusCode, body)
				require.Equal(t, "proxy-operator; error="+tc.wantKind, res.Header.Get("Proxy-Status"))
				require.Regexp(t, `^proxy-operator: [^\n]+ \(`+tc.target+`\)\n$`, body)
			})
		}
	}
}

func TestNamesAreResolvedByTheProxyAndTheEnvironmentIsIgnored(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://"+closedPort(t))
	t.Setenv("HTTPS_PROXY", "http://"+closedPort(t))
	origin := startOrigin(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) })
	_, port, err := net.SplitHostPort(origin.Listener.Addr().String())
	require.NoError(t, err)
	p := startProxy(t, forwardproxy.Config{Resolver: resolver(t, "known.test")})
	res, body := get(t, p.client(t, nil, nil), "http://known.test:"+port)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "known.test:"+port, body)
}

func TestMalformedBodyIsTheClientsFault(t *testing.T) {
	origin := startOrigin(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	p := startProxy(t, forwardproxy.Config{})
	c := dialRaw(t, p.address)
	c.say("POST " + origin.URL + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnot a chunk\r\n")
	res, _ := c.response(http.MethodPost)
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
	require.Equal(t, "proxy-operator; error=http_request_error", res.Header.Get("Proxy-Status"))
}

func TestClassify(t *testing.T) {
	dial := func(err error) error {
		return fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)})
	}
	cases := map[string]struct {
		why    string
		err    error
		status int
		kind   string
	}{
		"no route to host":    {"", dial(syscall.EHOSTUNREACH), 502, "destination_ip_unroutable"},
		"no route to network": {"a VM without IPv6 says so", dial(syscall.ENETUNREACH), 502, "destination_ip_unroutable"},
		"kernel timeout":      {"it isn't our own deadline", dial(syscall.ETIMEDOUT), 504, "connection_timeout"},
		"out of files":        {"our fault, and it passes", dial(syscall.EMFILE), 503, "proxy_internal_error"},
		"out of ports":        {"our fault, and it passes", dial(syscall.EADDRNOTAVAIL), 503, "proxy_internal_error"},
		"firewall":            {"a local rule says EPERM", dial(syscall.EPERM), 502, "destination_unavailable"},
		"reset":               {"", fmt.Errorf("read: %w", syscall.ECONNRESET), 502, "connection_terminated"},
		"client went away":    {"nobody hears it, but it isn't the origin's fault", context.Canceled, 400, "http_request_error"},
		"anything else":       {"an answer that we can't read", errors.New("malformed"), 502, "http_protocol_error"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			status, kind := forwardproxy.Classify(tc.err)
			require.Equal(t, tc.status, status, tc.why)
			require.Equal(t, tc.kind, kind, tc.why)
		})
	}
}
