// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// bare is what a prober costs that is a net/http client and nothing more.
type bare struct {
	client *http.Client
	url    string
	spent  effort
}

// newBare returns one that asks as the engine's probes do, by a connection of its own each time.
func newBare(far *farEnd) *bare {
	proxy := &url.URL{Scheme: "http", Host: net.JoinHostPort(loopback, strconv.Itoa(far.Proxy))}
	return &bare{url: far.Judge + "?nonce=bare", client: &http.Client{Timeout: probeTimeout, Transport: &http.Transport{
		Proxy: http.ProxyURL(proxy), DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: far.roots, ClientSessionCache: tls.NewLRUClientSessionCache(sessions), MinVersion: tls.VersionTLS12},
	}}}
}

// run asks for n proxies once in each of some intervals, as evenly as the engine.
func (b *bare) run(ctx context.Context, n, intervals int) error {
	return b.spent.of(func() error {
		ticker := time.NewTicker(probeEvery / time.Duration(n))
		defer ticker.Stop()
		all := n * intervals
		answered := make(chan error, all)
		for range all {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-ticker.C:
			}
			go func() { answered <- b.get(ctx) }()
		}
		var errs []error
		for range all {
			errs = append(errs, <-answered)
		}
		b.spent.probes += float64(all)
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("probe by net/http: %w", err)
		}
		return nil
	})
}

func (b *bare) get(ctx context.Context) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url, nil)
	if err != nil {
		return err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if _, err := io.ReadAll(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
