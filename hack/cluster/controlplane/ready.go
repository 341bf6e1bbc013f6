// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/child"
)

const (
	readyPoll    = 50 * time.Millisecond
	probeTimeout = 5 * time.Second
)

// choosePorts returns the given ports, with a free one in place of each 0.
func choosePorts(port, etcdPort int) (int, int, error) {
	for _, p := range []*int{&port, &etcdPort} {
		if *p != 0 {
			continue
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, 0, fmt.Errorf("find a free port: %w", err)
		}
		// Kept until both are chosen, so that they differ.
		defer func() { _ = listener.Close() }()
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return 0, 0, errors.New("find a free port: not TCP")
		}
		*p = address.Port
	}
	return port, etcdPort, nil
}

// waitReady returns when url answers 200, the process has ended, or ctx has.
func waitReady(ctx context.Context, p *child.Child, url string, settings *tls.Config) error {
	prober := newProber(settings)
	defer prober.CloseIdleConnections()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		last := probe(ctx, prober, url)
		if last == nil {
			return nil
		}
		select {
		case <-p.Done():
			return ended(p)
		case <-ctx.Done():
			return fmt.Errorf("start %s: %w (its last answer: %w)", p.Name(), context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

// newProber is a client for loopback: a proxy of the environment has no say.
func newProber(settings *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true},
		Timeout:   probeTimeout,
	}
}

func probe(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("build probe: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil {
		return fmt.Errorf("read probe's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
