// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// origin is the web site that the proxies are used for, by HTTP and by HTTPS.
type origin struct {
	plain, secure *httptest.Server
	roots         *x509.CertPool
}

func startOrigin() *origin {
	answer := func(scheme string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprintf(w, "%s %s", scheme, r.URL.Path) })
	}
	o := &origin{
		plain: httptest.NewUnstartedServer(answer("http")), secure: httptest.NewUnstartedServer(answer("https")), roots: x509.NewCertPool(),
	}
	for _, s := range []*httptest.Server{o.plain, o.secure} {
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // clients are told what goes wrong
	}
	o.plain.Start()
	o.secure.StartTLS()
	o.roots.AddCert(o.secure.Certificate())
	return o
}

func (o *origin) close() {
	o.plain.Close()
	o.secure.Close()
}

func (o *origin) url(scheme string) string {
	if scheme == "https" {
		return o.secure.URL
	}
	return o.plain.URL
}

// login is what a client of a proxy sends; empty: nothing.
type login struct{ username, password string }

// visit asks the origin for a path through a proxy: HTTP by absolute form, HTTPS by CONNECT. status is the origin's, or
// that of the proxy where it refuses.
func visit(ctx context.Context, p *v1alpha1.Proxy, l login, scheme string) (status int, err error) {
	at := &url.URL{Scheme: "http", Host: net.JoinHostPort(p.Status.IP, strconv.Itoa(int(p.Status.Port)))}
	if l != (login{}) {
		at.User = url.UserPassword(l.username, l.password)
	}
	transport := &http.Transport{
		Proxy:             http.ProxyURL(at),
		TLSClientConfig:   &tls.Config{RootCAs: cluster.origin.roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, connect *http.Response) error {
			status = connect.StatusCode // of a refused CONNECT the client gets no more than an error
			return nil
		},
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	path := "/" + p.Name
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cluster.origin.url(scheme)+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return status, err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode == http.StatusOK && string(body) != scheme+" "+path {
		err = fmt.Errorf("the answer is %q", body)
	}
	return resp.StatusCode, err
}

// requireTraffic checks that the proxy carries a request of each scheme for a client with this login.
func requireTraffic(t *testing.T, p *v1alpha1.Proxy, l login) {
	t.Helper()
	for _, scheme := range []string{"http", "https"} {
		status, err := visit(t.Context(), p, l, scheme)
		require.NoError(t, err, "%s through %s", scheme, p.Name)
		require.Equal(t, http.StatusOK, status, "%s through %s", scheme, p.Name)
	}
}

// requireRefused checks that the proxy asks a client with this login for another one.
func requireRefused(t *testing.T, p *v1alpha1.Proxy, l login) {
	t.Helper()
	for _, scheme := range []string{"http", "https"} {
		status, _ := visit(t.Context(), p, l, scheme)
		require.Equal(t, http.StatusProxyAuthRequired, status, "%s through %s", scheme, p.Name)
	}
}

// insecure is for the manager's own endpoints: it signs the certificate of its metrics itself.
func insecure() *http.Transport {
	return &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, //nolint:gosec // see above
		DisableKeepAlives: true,
	}
}
