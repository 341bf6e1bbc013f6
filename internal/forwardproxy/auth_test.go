// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

func basic(userPassword string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(userPassword))
}

func TestOnlyTheRightCredentialsGetThrough(t *testing.T) {
	origin := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Proxy-Authorization")+r.Header.Get("Authorization"))
	})
	host := origin.Listener.Addr().String()
	p := startProxy(t, forwardproxy.Config{Username: "crawler", Password: "pass:word"})
	cases := map[string]struct {
		why, header string
		wantOK      bool
	}{
		"right":               {"a password may contain a colon", "Proxy-Authorization: " + basic("crawler:pass:word"), true},
		"right, lower case":   {"schemes are case-insensitive", "proxy-authorization: b" + basic("crawler:pass:word")[1:], true},
		"none":                {"the proxy isn't open", "X-Nothing: 1", false},
		"wrong password":      {"", "Proxy-Authorization: " + basic("crawler:pass:wore"), false},
		"wrong user":          {"", "Proxy-Authorization: " + basic("crawled:pass:word"), false},
		"empty":               {"", "Proxy-Authorization: " + basic(":"), false},
		"prefix":              {"lengths must count", "Proxy-Authorization: " + basic("crawler:pass:wor"), false},
		"another scheme":      {"", "Proxy-Authorization: Bearer x", false},
		"not base64":          {"", "Proxy-Authorization: Basic !!!", false},
		"the origin's header": {"that one isn't ours to read", "Authorization: " + basic("crawler:pass:word"), false},
	}
	requests := map[string]string{
		http.MethodGet:     "GET http://" + host + "/ HTTP/1.1\r\nHost: x\r\n",
		http.MethodConnect: "CONNECT " + host + " HTTP/1.1\r\nHost: x\r\n",
	}
	for name, tc := range cases {
		for method, request := range requests {
			t.Run(name+" by "+method, func(t *testing.T) {
				c := dialRaw(t, p.address)
				c.say(request + tc.header + "\r\n\r\n")
				res, body := c.response(method)
				if tc.wantOK {
					require.Equal(t, http.StatusOK, res.StatusCode, tc.why)
					require.Empty(t, body, "credentials stay here")
					return
				}
				require.Equal(t, http.StatusProxyAuthRequired, res.StatusCode, tc.why)
				require.Equal(t, `Basic realm="proxy-operator"`, res.Header.Get("Proxy-Authenticate"))
				require.Equal(t, "proxy-operator; error=http_request_denied", res.Header.Get("Proxy-Status"))
			})
		}
	}

	t.Run("a real client by both forms", func(t *testing.T) {
		res, body := get(t, p.client(t, url.UserPassword("crawler", "pass:word"), nil), origin.URL)
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Empty(t, body)
		res, _ = get(t, p.client(t, url.UserPassword("crawler", "no"), nil), origin.URL)
		require.Equal(t, http.StatusProxyAuthRequired, res.StatusCode)
	})
}

func TestRequestsToTheProxyItself(t *testing.T) {
	open := startProxy(t, forwardproxy.Config{})
	closed := startProxy(t, forwardproxy.Config{Username: "u", Password: "p"})
	cases := map[string]struct {
		why        string
		proxy      *proxy
		request    string
		wantStatus int
		want       string
	}{
		"a browser's visit":             {"it is told what this is", open, "GET / HTTP/1.1\r\nHost: evil\r\n\r\n", 400, "curl -x http://" + open.address + " http://example.com/"},
		"a visit without credentials":   {"the example shows where they go", closed, "GET / HTTP/1.0\r\n\r\n", 400, "curl -x http://USER:PASSWORD@" + closed.address},
		"readiness":                     {"local checks have no credentials", closed, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 200, "ok"},
		"readiness by another method":   {"it is one path for one purpose", open, "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 400, "forward proxy"},
		"OPTIONS of the server":         {"net/http would say 200", open, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400, "forward proxy"},
		"itself as an origin":           {"a loop ends at once", open, "GET http://" + open.address + "/ HTTP/1.1\r\nHost: x\r\n\r\n", 400, "forward proxy"},
		"somebody's healthz by a proxy": {"absolute form is never ours", closed, "GET http://" + closed.address + "/healthz HTTP/1.1\r\nHost: x\r\n\r\n", 407, "credentials"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, tc.proxy.address)
			c.say(tc.request)
			res, body := c.response(http.MethodGet)
			require.Equal(t, tc.wantStatus, res.StatusCode, tc.why)
			require.Contains(t, body, tc.want, tc.why)
		})
	}
}

func TestLoadCredentials(t *testing.T) {
	type files map[string]string
	cases := map[string]struct {
		why     string
		files   files
		wantErr string
	}{
		"as kubectl makes it":       {"no line break", files{"username": "u", "password": "p"}, ""},
		"as an editor leaves it":    {"one line break is trimmed", files{"username": "u\n", "password": "p\r\n"}, ""},
		"no password":               {"half a login must not open the proxy", files{"username": "u"}, "password"},
		"empty username":            {"half a login must not open the proxy", files{"username": "\n", "password": "p"}, "file username"},
		"nothing":                   {"an unmounted Secret must not open the proxy", files{}, "load credentials"},
		"a line break in the midst": {"no client could send it", files{"username": "u\nv", "password": "p"}, "control character"},
		"a colon in the username":   {"Basic can't carry it", files{"username": "u:v", "password": "p"}, "colon"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range tc.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600))
			}
			username, password, err := forwardproxy.LoadCredentials(dir)
			if err == nil {
				_, err = forwardproxy.New(forwardproxy.Config{Username: username, Password: password})
			}
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr, tc.why)
				return
			}
			require.NoError(t, err, tc.why)
			require.Equal(t, "u p", username+" "+password)
		})
	}

	_, err := forwardproxy.New(forwardproxy.Config{Username: "u"})
	require.ErrorContains(t, err, "both")
}
