// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// request is what a client asked the API server for.
type request struct{ group, resource, subresource, verb string }

// tally is how often each was asked for, whatever the answer: a write that is refused costs as much as any.
type tally map[request]float64

var (
	metricLabel = regexp.MustCompile(`(\w+)="([^"]*)"`)
	metricLine  = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)

	readVerbs = []string{"GET", "LIST", "WATCH", "WATCHLIST"}
)

// sample is a line of a metrics endpoint.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// scrape reads a metrics endpoint and returns the samples of some names.
func scrape(ctx context.Context, client *http.Client, url string, names ...string) (found []sample, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics: GET %s: %s", url, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		m := metricLine.FindStringSubmatch(lines.Text())
		if m == nil || !slices.Contains(names, m[1]) {
			continue
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, fmt.Errorf("read metrics: %s: %w", m[0], err)
		}
		s := sample{m[1], map[string]string{}, value}
		for _, l := range metricLabel.FindAllStringSubmatch(m[2], -1) {
			s.labels[l[1]] = l[2]
		}
		found = append(found, s)
	}
	return found, lines.Err()
}

// requests asks the API server what it was asked for since its start.
func (w *world) requests(ctx context.Context) (tally, error) {
	samples, err := scrape(ctx, w.http, w.Cluster.Endpoint+"/metrics", "apiserver_request_total")
	if err != nil {
		return nil, err
	}
	t := tally{}
	for _, s := range samples {
		t[request{s.labels["group"], s.labels["resource"], s.labels["subresource"], s.labels["verb"]}] += s.value
	}
	return t, nil
}

// since is what came after an earlier tally.
func (t tally) since(earlier tally) tally {
	d := tally{}
	for r, n := range t {
		if n > earlier[r] {
			d[r] = n - earlier[r]
		}
	}
	return d
}

// writes counts those on Proxies; the subresource is empty for the object itself.
func (t tally) writes(subresource string) float64 {
	var n float64
	for r, count := range t {
		if r.group == v1alpha1.GroupVersion.Group && r.resource == "proxies" && r.subresource == subresource && !slices.Contains(readVerbs, r.verb) {
			n += count
		}
	}
	return n
}

// reads counts those of one resource, but watches: they are one request however long they last.
func (t tally) reads(resource string) float64 {
	var n float64
	for r, count := range t {
		if r.resource == resource && (r.verb == "GET" || r.verb == "LIST") {
			n += count
		}
	}
	return n
}

func (t tally) allWrites() float64 { return t.writes("") + t.writes("status") }

// quiet returns the tally once no write on Proxies was counted for a while: the API server counts a request after it has
// answered it, and an operator may write again. After the limit it returns the tally in any case.
func (w *world) quiet(ctx context.Context, forSo, limit time.Duration) (tally, error) {
	const every = 100 * time.Millisecond
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last, err := w.requests(ctx)
	for begun, since := time.Now(), time.Now(); err == nil && time.Since(since) < forSo && time.Since(begun) < limit; {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for quiet: %w", ctx.Err())
		case <-ticker.C:
		}
		var now tally
		if now, err = w.requests(ctx); err == nil && now.allWrites() != last.allWrites() {
			since = time.Now()
		}
		last = now
	}
	return last, err
}

// usage is what the manager tells of itself; process figures are 0 where the system doesn't give them.
type usage struct {
	reconciles, queued, providerCalls, probes, cpuSeconds, residentBytes float64
}

// since is what the counters of an earlier usage have grown by; depth and memory stay those of now.
func (u usage) since(earlier usage) usage {
	u.reconciles -= earlier.reconciles
	u.providerCalls -= earlier.providerCalls
	u.probes -= earlier.probes
	u.cpuSeconds -= earlier.cpuSeconds
	return u
}

// watch measures what the API server was asked for, and what the manager did, while do ran.
func (w *world) watch(ctx context.Context, do func() error) (asked tally, did usage, err error) {
	before, err := w.requests(ctx)
	if err != nil {
		return nil, did, err
	}
	then, err := w.managerUsage(ctx)
	if err != nil {
		return nil, did, err
	}
	if err := do(); err != nil {
		return nil, did, err
	}
	after, err := w.requests(ctx)
	if err != nil {
		return nil, did, err
	}
	now, err := w.managerUsage(ctx)
	return after.since(before), now.since(then), err
}

func (w *world) managerUsage(ctx context.Context) (usage, error) {
	var u usage
	figures := map[string]*float64{
		"controller_runtime_reconcile_total":  &u.reconciles,
		"workqueue_depth":                     &u.queued,
		"proxy_operator_provider_calls_total": &u.providerCalls,
		"proxy_operator_probes_total":         &u.probes,
		"process_cpu_seconds_total":           &u.cpuSeconds,
		"process_resident_memory_bytes":       &u.residentBytes,
	}
	samples, err := scrape(ctx, http.DefaultClient, "http://"+w.Manager.Metrics+"/metrics", slices.Collect(maps.Keys(figures))...)
	for _, s := range samples {
		*figures[s.name] += s.value
	}
	return u, err
}
