// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"hash/fnv"
	"strconv"
	"time"

	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/providers"
)

// The bounds of the boot deadline, and of the wait before an ill machine is replaced. Both double with every machine in a
// row that doesn't come up, or falls ill when it is young.
const (
	longestBoot = 24 * time.Hour
	longestIll  = time.Hour // what made the machines ill may be over: a target that had banned them
	young       = time.Hour // a machine that works for longer has proved what it was made from
	mostDoubled = 10
)

// Care is what the spec asks for about machines that don't work, or get old.
type Care struct {
	Remediate    bool          // replace an unhealthy one
	ReplaceAfter time.Duration // once it has been unhealthy for so long
	BootDeadline time.Duration // from the intent until traffic gets through; 0: for ever
	MaxAge       time.Duration // 0: for ever
}

// running is the instance that serves, wanted or not: it runs, and is of the newest incarnation.
func (s Seen) running() *providers.Instance {
	newest := s.newest()
	for _, i := range s.Instances {
		if s.state(i) == providers.StateRunning && i.Tags.Incarnation == newest && i.IP != "" {
			return &i
		}
	}
	return nil
}

// condemned tells why an instance that is as wanted is replaced all the same; empty: it isn't.
func (s Seen) condemned(i providers.Instance) Cause {
	switch at := s.condemnedAt(i); {
	case at.when.IsZero() || s.Now.Before(at.when):
		return ""
	default:
		return at.cause
	}
}

// doom is when an instance will have to go, and why; the zero time: never, as things are.
type doom struct {
	when  time.Time
	cause Cause
}

// condemnedAt tells when the instance is to be replaced if nothing changes. A machine that boots has until its deadline;
// one that runs and doesn't work too, but only where the probes say that it is its own fault; one that worked once has the
// time that the spec gives it to come back. Remediation that is held condemns nobody.
func (s Seen) condemnedAt(i providers.Instance) doom {
	c, v := s.Want.Care, s.Vitals
	old, ill := s.oldAt(i), s.ill(i)
	switch {
	case c.BootDeadline > 0 && (i.State == providers.StateProvisioning || (ill && !v.Booted)):
		return old.or(doom{s.bootsSince(i).Add(s.bootDeadline(c.BootDeadline)), CauseBoot})
	case ill && v.Booted && c.Remediate:
		return old.or(doom{v.Since.Add(s.replaceAfter(i)), CauseUnhealthy})
	default:
		return old
	}
}

// bootsSince is when the instance began to boot: one that this process saw running boots again, and has its time again.
func (s Seen) bootsSince(i providers.Instance) time.Time {
	if since := s.Calls.RanUntil; i.State == providers.StateProvisioning && s.Calls.Ran.instance.Ref == i.Ref && since.After(s.born(i)) {
		return since
	}
	return s.born(i)
}

// or is the earlier of two, of which d may be never.
func (d doom) or(other doom) doom {
	if d.when.IsZero() || other.when.Before(d.when) {
		return other
	}
	return d
}

// ill reports whether requests don't get through the instance, and that is its own fault by the newest round too: one that
// fell ill just before its target, or this process's network, may be well again, and no round can show it.
func (s Seen) ill(i providers.Instance) bool {
	v := s.Vitals
	return v.Of == i.Ref && v.Health == health.Unhealthy && (!v.Held || s.off(GuardHealthHeld)) && (!v.Doubted || s.off(GuardHealthBlamed))
}

// bootDeadline grows with the machines in a row that didn't come up from these inputs: a cloud-init that doesn't work must
// not burn money.
func (s Seen) bootDeadline(d time.Duration) time.Duration {
	if s.Intent == nil || s.off(GuardBootBackoff) {
		return d
	}
	return min(d<<s.Intent.doublings(), longestBoot)
}

// replaceAfter grows with the machines in a row that didn't come up from these inputs or fell ill when they were young, as
// the boot deadline does: what makes each new machine ill must not burn money either. One that fell ill when it was older
// has the time of the spec.
func (s Seen) replaceAfter(i providers.Instance) time.Duration {
	d := s.Want.Care.ReplaceAfter
	if s.Intent == nil || !s.fellYoung(i) || s.off(GuardBootBackoff) {
		return d
	}
	return max(d, min(d<<s.Intent.doublings(), longestIll))
}

// fellYoung reports whether the instance worked, and turned ill before it had proved what it was made from.
func (s Seen) fellYoung(i providers.Instance) bool {
	return s.Vitals.Booted && s.Vitals.Since.Sub(s.born(i)) < young
}

// failed reports whether the step replaces a machine that speaks against what it was made from.
func (s Seen) failed(st Step) bool {
	switch st.Cause {
	case CauseBoot:
		return true
	case CauseUnhealthy:
		i := s.running()
		return i != nil && i.Ref == st.Of && s.fellYoung(*i)
	default:
		return false
	}
}

// oldAt is when the instance is too old: up to a tenth before its age, by its name, so that machines made together don't
// go together (aws/karpenter-provider-aws#1884).
func (s Seen) oldAt(i providers.Instance) doom {
	age := s.Want.Care.MaxAge
	if age == 0 {
		return doom{}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(i.Tags.OwnerUID + strconv.FormatInt(i.Tags.Incarnation, 10)))
	early := time.Duration(float64(age) / 10 * float64(h.Sum32()) / float64(1<<32))
	return doom{s.born(i).Add(age - early), CauseAge}
}

// untilDoom shortens a wait to the time when the instance is to be replaced.
func (s Seen) untilDoom(i providers.Instance, d time.Duration) time.Duration {
	if at := s.condemnedAt(i); at.when.After(s.Now) {
		return min(d, at.when.Sub(s.Now))
	}
	return d
}

// bootsBefore is how many machines in a row, made from that hash, didn't come up in time or fell ill when they were young.
// One that worked for longer begins anew.
func (s Seen) bootsBefore(hash string) int {
	switch {
	case s.Intent == nil || s.Intent.Hash != hash:
		return 0
	case s.Calls.BootFailed == s.Intent.Incarnation:
		return min(s.Intent.doublings()+1, mostDoubled)
	case s.Calls.BootedIs && s.Calls.Booted == s.Intent.Incarnation && s.Now.Sub(s.Intent.At) >= young:
		return 0
	default:
		return s.Intent.Boots
	}
}
