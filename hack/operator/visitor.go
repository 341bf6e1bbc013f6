// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// Endpoint is where a Proxy that is Ready serves, as HOST:PORT.
func Endpoint(p *v1alpha1.Proxy) string {
	return net.JoinHostPort(p.Status.IP, strconv.Itoa(int(p.Status.Port)))
}

// Visitor asks for pages through proxies, each time on a connection of its own.
type Visitor struct {
	// Username and Password are for the proxy; both empty: it is sent none.
	Username, Password string
	// Roots verify the servers of pages.
	Roots *x509.CertPool
}

// Visit asks for a page through the proxy at an endpoint: by absolute form, or by CONNECT if the page's scheme is https. status is
// the page's, or that of a proxy that refuses; 0: nobody answered.
func (v Visitor) Visit(ctx context.Context, endpoint, page string) (status int, body []byte, err error) {
	proxy := &url.URL{Scheme: "http", Host: endpoint}
	if v.Username != "" || v.Password != "" {
		proxy.User = url.UserPassword(v.Username, v.Password)
	}
	transport := &http.Transport{
		Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: v.Roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, connect *http.Response) error {
			status = connect.StatusCode // of a refused CONNECT the client gets no more than an error
			return nil
		},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return status, nil, err
	}
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, errors.Join(err, resp.Body.Close())
}
