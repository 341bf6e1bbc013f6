// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// inputPoll is the time between two looks for a Secret that isn't there.
const inputPoll = 30 * time.Second

// stalled reports whether some Proxy waits for its user.
func (w *World) stalled() bool {
	return slices.ContainsFunc(w.api.Proxies(), func(p *v1alpha1.Proxy) bool { return !w.possible(p) })
}

// tick is the time between two lists that feed the polls of a whole account.
const tick = time.Minute

func lawQuiet() law {
	return law{"L11", "in the quiet hour nothing is written, no cloud is changed, and each account is listed once a tick and once a sweep", func() check {
		listed := map[reader]time.Time{}
		return func(w *World, c *call) string {
			switch {
			case c == nil || !w.quiet:
			case c.op.writes() || c.op.mutates():
				return "there is a " + string(c.op) + " of " + c.key.Name + " though all is well"
			case c.op == Get && !w.stalled():
				return "there is a Get of " + c.ref.String() + " though all is well"
			case c.op == List:
				r := reader{toAccount{c.by, c.in}, c.by.pass.sweep}
				last, again := listed[r]
				listed[r] = c.at
				if every := w.listedEvery(r); again && c.at.Sub(last) < every-every/10 {
					return fmt.Sprintf("account %s is listed again after %s", c.in, c.at.Sub(last))
				}
			}
			return ""
		}
	}}
}

// reader is the passes of a process, or its sweeps.
type reader struct {
	toAccount
	sweeps bool
}

func (w *World) listedEvery(r reader) Duration {
	switch {
	case r.sweeps:
		return sweepEvery
	case w.stalled():
		return inputPoll
	default:
		return tick
	}
}
