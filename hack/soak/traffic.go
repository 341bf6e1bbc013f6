// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

const (
	visitors   = 16 // at a time
	visitLimit = 10 * time.Second
)

// origin is the web site that the proxies are used for.
type origin struct {
	server *http.Server
	url    string
}

func startOrigin() (*origin, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // a listen on loopback never waits
	if err != nil {
		return nil, fmt.Errorf("start the origin: %w", err)
	}
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
	o := &origin{server: &http.Server{Handler: echo, ReadHeaderTimeout: visitLimit}, url: "http://" + l.Addr().String()}
	go func() { _ = o.server.Serve(l) }() // ends with close; visitors are told what goes wrong
	return o, nil
}

func (o *origin) close() { _ = o.server.Close() }

// visitAll sends requests through all wanted proxies and tells which don't carry them.
func (s *soak) visitAll(ctx context.Context, now *seen) map[string][]string {
	w := s.wanted.copy()
	var mu sync.Mutex
	var all sync.WaitGroup
	wrong, places := map[string][]string{}, make(chan struct{}, visitors)
	for i := range now.proxies {
		p := &now.proxies[i]
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if err := s.visit(ctx, p, w.loginOf(p)); err != nil {
				mu.Lock()
				defer mu.Unlock()
				wrong[p.Name] = append(wrong[p.Name], err.Error())
			}
		})
	}
	all.Wait()
	return wrong
}

// visit sends a request through a proxy, and another one without a login if it is to ask for one.
func (s *soak) visit(ctx context.Context, p *v1alpha1.Proxy, l login) error {
	wants := map[login]int{l: http.StatusOK}
	if l != (login{}) {
		wants[login{}] = http.StatusProxyAuthRequired
	}
	for l, want := range wants {
		status, err := s.get(ctx, p, l)
		if err != nil {
			return fmt.Errorf("send a request through it: %w", err)
		}
		if status != want {
			return fmt.Errorf("a request through it is answered with %d, and should be with %d", status, want)
		}
	}
	return nil
}

// get asks the origin for a path that nobody else asks for.
func (s *soak) get(ctx context.Context, p *v1alpha1.Proxy, l login) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, visitLimit)
	defer cancel()
	path := "/" + string(p.UID)
	status, body, err := operator.Visitor{Username: l.username, Password: l.password}.Visit(ctx, operator.Endpoint(p), s.origin.url+path)
	if err == nil && status == http.StatusOK && string(body) != path {
		err = fmt.Errorf("the answer is %q", body)
	}
	return status, err
}
