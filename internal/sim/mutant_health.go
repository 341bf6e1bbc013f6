// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"

	"github.com/proxy-operator/proxy-operator/controllers"
	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

// ofHealth leave out what spares machines that work, and those that don't.
func ofHealth() []Mutant {
	targets := Mutant{Name: "a target's failure is the proxy's", prober: func(p health.Prober) health.Prober { return harsh{p} }}
	kept := Mutant{Name: "a verdict outlives its machine", health: func(h controllers.Health) controllers.Health {
		return &keepsVerdicts{h, map[string]health.Verdict{}}
	}}
	return []Mutant{
		without("all are replaced at once", controllers.GuardBudget).on("gce,objects=20,probe,rotate@500:1"),
		without("slots are forgotten with the process", controllers.GuardSlotsRebuilt).on("gce,objects=20,probe,bad-secret@500:1800,crash-before@720"),
		without("who was taken down is read from an old cache", controllers.GuardSlotsLive).on("gce,objects=6,seed=2515850609,probe,age@166:1200,cloud-down@79:120,travel@295:3"),
		without("slots are rebuilt before each Proxy had a pass", controllers.GuardSlotsSeen).on("aws,objects=6,probe,rotate@400:1,crash-before@403"),
		without("a slot is never free again", controllers.GuardSlotFreed).on("gce,objects=20,probe,rotate@500:1"),
		without("many that fall ill at once are replaced", controllers.GuardHealthHeld).on("gce,objects=20,probe,all-ill@500:200"),
		without("who was ill when the target went down is replaced", controllers.GuardHealthBlamed).on("do,seed=4118613662,probe,rotate@37:1,hiccup@148:60,target-down@150:1200"),
		without("the boot deadline stays the same", controllers.GuardBootBackoff).on("gce,probe,bad-secret@60:9000"),
		targets.on("gce,probe,target-down@60:1200"),
		kept.on("gce,probe,bad-secret@60:1800"),
	}
}

// harsh blames the proxy for all.
type harsh struct{ health.Prober }

func (h harsh) Probe(ctx context.Context, p probe.Proxy, t probe.Target) probe.Outcome {
	o := h.Prober.Probe(ctx, p, t)
	if o.Fault == probe.FaultTarget {
		o.Fault, o.Reason = probe.FaultProxy, probe.ReasonProxyError
	}
	return o
}

func (h harsh) Control(ctx context.Context, t probe.Target) probe.Outcome {
	h.Prober.Control(ctx, t)
	return probe.Outcome{Fault: probe.FaultNone, Reason: probe.ReasonHealthy}
}

// keepsVerdicts tells of a new machine what was known of the last one, until more is known.
type keepsVerdicts struct {
	controllers.Health
	last map[string]health.Verdict
}

func (k *keepsVerdicts) Verdict(uid string) (health.Verdict, bool) {
	v, ok := k.Health.Verdict(uid)
	if last, was := k.last[uid]; ok && was && v.Health == health.Unknown {
		last.Incarnation = v.Incarnation
		return last, ok
	}
	if ok {
		k.last[uid] = v
	}
	return v, ok
}
