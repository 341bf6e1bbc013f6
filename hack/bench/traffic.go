// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

const (
	clients  = 32      // at a time, each with a connection that it keeps
	pageSize = 4 << 10 // of the origin's answer
	rounds   = 5       // in which every way has a turn, so that a busy moment of the machine meets all of them
	turn     = time.Second
)

// way is one way to the origin.
type way struct {
	name   string
	url    string
	client *http.Client
	rates  []float64 // requests per second, one for each round
}

// traffic compares requests through a proxy with requests straight to the origin. All of client, origin and proxy share
// this machine, so that only the ratios tell something of the proxy.
func (w *world) traffic(ctx context.Context, r *report) error {
	var list v1alpha1.ProxyList
	if err := w.kube.List(ctx, &list, client.Limit(1)); err != nil {
		return fmt.Errorf("list Proxies: %w", err)
	}
	through := &url.URL{Scheme: "http", Host: operator.Endpoint(&list.Items[0])}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, pageSize)) // the client sees what is missing
	})
	plain, secure := httptest.NewServer(page), httptest.NewTLSServer(page)
	defer plain.Close()
	defer secure.Close()
	direct, http, directTLS, connect := newWay("direct-http", plain, nil), newWay("http", plain, through),
		newWay("direct-https", secure, nil), newWay("connect", secure, through)
	for range rounds {
		for _, way := range []*way{direct, http, directTLS, connect} {
			rate, err := way.rate(ctx)
			if err != nil {
				return fmt.Errorf("send requests, %s: %w", way.name, err)
			}
			way.rates = append(way.rates, rate)
		}
	}
	for _, way := range []*way{direct, http, directTLS, connect} {
		way.client.CloseIdleConnections()
		r.show("proxy-rps-"+way.name, median(way.rates))
	}
	r.show("proxy-ratio-http", ratio(http, direct))
	r.show("proxy-ratio-connect", ratio(connect, directTLS))
	return nil
}

func newWay(name string, origin *httptest.Server, through *url.URL) *way {
	transport := &http.Transport{MaxIdleConnsPerHost: clients, Proxy: http.ProxyURL(through)}
	if origin.Certificate() != nil {
		roots := origin.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return &way{name: name, url: origin.URL, client: &http.Client{Transport: transport}}
}

// rate sends requests for one turn, from all clients, and returns how many were answered in a second.
func (w *way) rate(ctx context.Context) (float64, error) {
	var answered atomic.Int64
	failed := make(chan error, clients)
	var all sync.WaitGroup
	begun := time.Now()
	for range clients {
		all.Go(func() {
			for time.Since(begun) < turn {
				if err := w.get(ctx); err != nil {
					failed <- err
					return
				}
				answered.Add(1)
			}
		})
	}
	all.Wait()
	took := time.Since(begun).Seconds()
	close(failed)
	return float64(answered.Load()) / took, <-failed
}

func (w *way) get(ctx context.Context) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	if err != nil {
		return err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n != pageSize) {
		err = fmt.Errorf("%s with %d bytes", resp.Status, n)
	}
	return err
}

// ratio is the median of those of the rounds.
func ratio(a, b *way) float64 {
	ratios := make([]float64, len(a.rates))
	for i := range ratios {
		ratios[i] = a.rates[i] / b.rates[i]
	}
	return median(ratios)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
