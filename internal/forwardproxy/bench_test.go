// SPDX-License-Identifier: Apache-2.0

package forwardproxy_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

// BenchmarkRequests compares requests per second straight to the origin, in
// absolute form and through kept tunnels, 16 at a time per core.
func BenchmarkRequests(b *testing.B) {
	page := make([]byte, 4<<10)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	plain := startOrigin(b, handler)
	secure := httptest.NewTLSServer(handler)
	b.Cleanup(secure.Close)
	p := startProxy(b, forwardproxy.Config{})
	direct := &http.Transport{MaxIdleConnsPerHost: 64}
	b.Cleanup(direct.CloseIdleConnections)

	for _, way := range []struct {
		name, url string
		client    *http.Client
	}{
		{"direct", plain.URL, &http.Client{Transport: direct}},
		{"absolute-form", plain.URL, p.client(b, nil, nil)},
		{"tunnel", secure.URL, p.client(b, nil, rootsOf(secure))},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					fetch(b, way.client, way.url)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
		})
	}
}

func fetch(b *testing.B, client *http.Client, url string) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	require.NoError(b, err)
	res, err := client.Do(req)
	require.NoError(b, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(b, err)
	require.NoError(b, res.Body.Close())
	require.Equal(b, http.StatusOK, res.StatusCode)
}
