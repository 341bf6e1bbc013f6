// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"sync"
)

// tally counts what the last line tells.
type tally struct {
	mu       sync.Mutex
	ready    map[string]bool // names of Proxies that were Ready
	requests int             // sent through proxies, to be answered by the origin
	failures int             // requests and checks that went wrong
	behind   int             // Proxies, instances and processes that should be gone
}

func newTally() *tally { return &tally{ready: map[string]bool{}} }

func (t *tally) isReady(proxy string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ready[proxy] = true
}

func (t *tally) request(good bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests++
	if !good {
		t.failures++
	}
}

func (t *tally) failure() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures++
}

func (t *tally) leftBehind(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.behind += n
}

func (t *tally) left() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.behind
}

func (t *tally) good() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failures == 0 && t.behind == 0
}

// line is the demo's last one; programs read it.
func (t *tally) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("demo: %d proxies ready, %d requests through them, %d failed, %d left behind",
		len(t.ready), t.requests, t.failures, t.behind)
}

// check tells of a check, and counts it if it went wrong.
func (d *demo) check(good bool, format string, args ...any) {
	if good {
		d.screen.ok(format, args...)
		return
	}
	d.tally.failure()
	d.screen.bad(format, args...)
}
