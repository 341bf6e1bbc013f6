// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
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
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	path := "/" + p.Name
	v := operator.Visitor{Username: l.username, Password: l.password, Roots: cluster.origin.roots}
	status, body, err := v.Visit(ctx, operator.Endpoint(p), cluster.origin.url(scheme)+path)
	if err == nil && status == http.StatusOK && string(body) != scheme+" "+path {
		err = fmt.Errorf("the answer is %q", body)
	}
	return status, err
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
