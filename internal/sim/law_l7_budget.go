// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
)

// budget is a bucket that holds what an account may still be asked by one process.
type budget struct {
	tokens float64
	at     time.Time
}

func lawBudget() law {
	type key struct {
		by      *process
		account string
		changes bool
	}
	return law{"L7 budget", "no account gets more calls of a process than its limits allow", func() check {
		buckets := map[key]*budget{}
		return func(_ *World, c *call) string {
			if c == nil || !c.op.ofCloud() {
				return ""
			}
			k := key{c.by, c.in, c.op.mutates()}
			b := buckets[k]
			if b == nil {
				b = &budget{tokens: float64(limits.Burst), at: c.at}
				buckets[k] = b
			}
			if since := c.at.Sub(b.at); since > 0 { // else it was overtaken
				b.tokens = min(float64(limits.Burst), b.tokens+since.Seconds()*limits.CallsPerSecond)
				b.at = c.at
			}
			b.tokens--
			if b.tokens < -workers { // a place that was kept for a create is taken later, and so is that of a call that was overtaken
				return fmt.Sprintf("account %s gets more calls than %g a second", c.in, limits.CallsPerSecond)
			}
			return ""
		}
	}}
}

// toAccount is what a process knows of an account.
type toAccount struct {
	by      *process
	account string
}

func lawRetryAfter() law {
	return law{"L7 retry-after", "who was told to wait doesn't call before", func() check {
		until := map[toAccount]time.Time{}
		return func(w *World, c *call) string {
			if c == nil || !c.op.ofCloud() {
				return ""
			}
			k := toAccount{c.by, c.in}
			if early := until[k].Sub(c.at); early > 0 {
				return fmt.Sprintf("account %s is called %s before its time", c.in, early)
			}
			if wait := cloud.RetryAfter(c.err); wait > 0 {
				until[k] = w.now().Add(wait)
			}
			return ""
		}
	}}
}
