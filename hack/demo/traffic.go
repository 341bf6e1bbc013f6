// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/hack/operator"
)

const requestLimit = 10 * time.Second

var schemes = []string{"http", "https"}

// target is a proxy as a crawler knows it.
type target struct {
	name, ip, at       string // at is HOST:PORT
	username, password string
}

// with returns the target as somebody with another password knows it.
func (t target) with(password string) target {
	t.password = password
	return t
}

// reply is what came back from a request through a proxy.
type reply struct {
	status int // of the origin, or of a proxy that refused
	seen   seen
	err    error
}

// problem says what is wrong with the reply to a request that should have reached the origin; empty if nothing is.
func (r reply) problem(t target, scheme, path string) string {
	switch {
	case r.status != 0 && r.status != http.StatusOK:
		return fmt.Sprintf("status %d", r.status)
	case r.err != nil:
		return cause(r.err)
	case r.seen.Scheme != scheme:
		return fmt.Sprintf("the origin was asked by %q", r.seen.Scheme)
	case r.seen.Path != path:
		return fmt.Sprintf("the origin was asked for %q", r.seen.Path)
	case r.seen.From != t.ip:
		return "the origin heard from " + r.seen.From
	default:
		return ""
	}
}

// sendTraffic shows that the proxies carry requests.
func (d *demo) sendTraffic(ctx context.Context) error {
	d.screen.scene("Requests through each proxy", "HTTP by absolute form, HTTPS by CONNECT. The origin tells the address that each request came from.")
	targets, err := d.targets(ctx)
	if err != nil {
		return err
	}
	if err := d.showRequests(ctx, targets); err != nil {
		return err
	}
	for _, t := range targets {
		if t.username != "" {
			d.checkRefused(ctx, t.with("wrong-password"), "a wrong password")
		}
	}
	return context.Cause(ctx)
}

// targets are all proxies that serve, or of those the named ones.
func (d *demo) targets(ctx context.Context, names ...string) ([]target, error) {
	proxies, err := d.kube.proxies(ctx)
	if err != nil {
		return nil, err
	}
	var targets []target
	for i := range proxies {
		p := &proxies[i]
		if !operator.IsReady(p) || !asked(names, p.Name) {
			continue
		}
		t := target{name: p.Name, ip: p.Status.IP, at: operator.Endpoint(p)}
		if secret := p.Spec.CredentialsSecret(); secret != "" {
			var s corev1.Secret
			if err := d.kube.client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: secret}, &s); err != nil {
				return nil, fmt.Errorf("read the credentials of %s: %w", p.Name, err)
			}
			t.username, t.password = string(s.Data[corev1.BasicAuthUsernameKey]), string(s.Data[corev1.BasicAuthPasswordKey])
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// asked reports whether name is among names; no names stand for all.
func asked(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }

func appendNew(list []string, s string) []string {
	if s == "" || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// showRequests sends a request of each scheme through each proxy and shows how it went.
func (d *demo) showRequests(ctx context.Context, targets []target) error {
	var rows [][]string
	var problems []string
	for _, t := range targets {
		row := []string{t.name, t.at}
		var from []string
		for _, scheme := range schemes {
			r, problem := d.request(ctx, t, scheme)
			row = append(row, outcome(r, problem))
			from = appendNew(from, r.seen.From)
			if problem != "" {
				problems = append(problems, fmt.Sprintf("%s through %s: %s", strings.ToUpper(scheme), t.name, problem))
			}
		}
		rows = append(rows, append(row, strings.Join(from, " ")))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.screen.table([]string{"PROXY", "AT", "HTTP", "HTTPS", "ORIGIN HEARD FROM"}, rows)
	for _, p := range problems {
		d.screen.bad("%s", p)
	}
	if len(problems) == 0 {
		d.screen.ok("%d of %d requests answered, each came from its proxy's address", len(targets)*len(schemes), len(targets)*len(schemes))
	}
	return nil
}

// countRequests sends a request of each scheme through each proxy and only tells how many went well.
func (d *demo) countRequests(ctx context.Context, targets []target) (good, sent int) {
	for _, t := range targets {
		for _, scheme := range schemes {
			if _, problem := d.request(ctx, t, scheme); problem == "" {
				good++
			}
			sent++
		}
	}
	return good, sent
}

// request sends one request through a proxy, checks the answer and counts it. Its path is nobody else's, so that no
// other answer can be taken for its own.
func (d *demo) request(ctx context.Context, t target, scheme string) (reply, string) {
	path := fmt.Sprintf("/%s/%d", t.name, d.requests.Add(1))
	r := d.origin.visit(ctx, t, scheme, path)
	problem := r.problem(t, scheme, path)
	if ctx.Err() == nil {
		d.tally.request(problem == "")
	}
	return r, problem
}

// checkRefused checks that the proxy serves neither scheme to a client with other credentials.
func (d *demo) checkRefused(ctx context.Context, t target, who string) {
	var got []string
	refused := true
	for _, scheme := range schemes {
		r := d.origin.visit(ctx, t, scheme, "/"+t.name)
		got = append(got, strings.ToUpper(scheme)+" "+outcome(r, "refused"))
		refused = refused && r.status == http.StatusProxyAuthRequired
	}
	if ctx.Err() == nil {
		d.check(refused, "%s with %s: %s", t.name, who, strings.Join(got, ", "))
	}
}

func outcome(r reply, problem string) string {
	if r.status == 0 && problem != "" {
		return "none"
	}
	return strconv.Itoa(r.status)
}

// visit asks the origin, through a proxy, for a path.
func (o *origin) visit(ctx context.Context, t target, scheme, path string) (r reply) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	v := operator.Visitor{Username: t.username, Password: t.password, Roots: o.roots}
	var body []byte
	r.status, body, r.err = v.Visit(ctx, t.at, strings.TrimSuffix(o.url(scheme), "/")+path)
	if r.err == nil && r.status == http.StatusOK {
		r.err = json.Unmarshal(body, &r.seen)
	}
	return r
}
