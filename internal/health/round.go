// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

// stage is how far a probe that failed had got. It decides what could excuse the proxy.
type stage int

const (
	toProxy stage = iota // no word from the proxy: it, or our own network
	atProxy              // the proxy itself said no; nobody else is involved
	beyond               // something between proxy and target
)

func stageOf(r probe.Reason) stage {
	switch r {
	case probe.ReasonDNSError, probe.ReasonConnectTimeout, probe.ReasonUnreachable:
		return toProxy
	case probe.ReasonConnectRefused, probe.ReasonTLSError, probe.ReasonAuthRequired, probe.ReasonAuthFailed,
		probe.ReasonBadAnswer, probe.ReasonProxyDenied, probe.ReasonOpenProxy:
		return atProxy
	default:
		return beyond
	}
}

// blame says on whose account the probe of one target goes.
type blame int

const (
	unasked  blame = iota // the round was decided without it
	answered              // the request went through
	failed                // the proxy's fault
	excused               // the target's or the operator's
	pending               // nobody can tell yet; others will have tried soon
)

// control is what the probe of a target without a proxy says.
type control int

const (
	noControl   control = iota // never succeeded since start: there is no direct way from here
	controlUp                  // succeeded when last tried
	controlDown                // succeeded before, and fails
)

// evidence is what is known beside the outcome itself.
type evidence struct {
	control control
	reached bool          // somebody has got through to the target since start, with or without a proxy
	crowd   crowd         // other proxies, since this one began to fail
	others  int           // how many others use the target
	failing time.Duration // how long this one has been failing
	wait    time.Duration // how long to wait for the others
}

// blameFor decides who failed. The first rule that applies wins.
func blameFor(o probe.Outcome, e evidence) blame {
	at := stageOf(o.Reason)
	switch {
	case o.Fault == probe.FaultNone:
		return answered
	case o.Fault != probe.FaultProxy:
		return excused // the target's, or this machine's own
	case at == atProxy:
		return failed
	case e.control == controlUp, e.crowd.up(at):
		return failed // also when the control is down: a target may have banned this address alone
	case e.control == controlDown, e.crowd.down(at):
		return excused
	case at == beyond && !e.reached:
		return excused // nobody has seen the target answer yet: it may be down since before this process began
	case e.crowd.size() < min(enoughOthers, e.others) && e.failing < e.wait:
		return pending
	default:
		return failed
	}
}

// enoughOthers is how many other proxies are heard before a target without a control probe counts as working.
const enoughOthers = 3

// kind is what one round means for the proxy.
type kind int

const (
	neither kind = iota // says nothing about the proxy
	good
	bad
)

// finding is the outcome of one round.
type finding struct {
	kind      kind
	doubt     bool         // somebody else must be heard first: look again soon
	reason    probe.Reason // of the first failure; the proxy's own before all others
	detail    string
	exitIP    string
	anonymity string
}

// judge decides a round. The slices run in parallel, one element per target.
func judge(outcomes []probe.Outcome, blames []blame, quorum int) finding {
	var f finding
	var count [pending + 1]int
	for i, b := range blames {
		count[b]++
		o := outcomes[i]
		switch {
		case b == answered:
			f.learn(o)
		case b == unasked:
		case f.reason == "", b == failed && count[failed] == 1:
			f.reason, f.detail = o.Reason, o.Detail
		}
	}
	f.kind = tally(count[answered], count[failed], count[excused]+count[pending], quorum)
	f.doubt = f.kind == neither && count[pending] > 0
	if f.kind == good {
		f.reason, f.detail = probe.ReasonHealthy, ""
	}
	return f
}

// learn takes from an answer what only the judge's tell.
func (f *finding) learn(o probe.Outcome) {
	if f.exitIP == "" {
		f.exitIP = o.ExitIP
	}
	if f.anonymity == "" {
		f.anonymity = o.Anonymity
	}
}

// tally counts. Without a quorum the majority of the targets that count decides: one that is down for weeks doesn't make
// the others stricter. With one, targets that don't count might have reached it, so that they leave the round open.
func tally(answered, failed, open, quorum int) kind {
	switch {
	case answered+failed == 0:
		return neither
	case quorum == 0 && answered > failed, quorum > 0 && answered >= quorum:
		return good
	case quorum == 0, answered+open < quorum:
		return bad
	default:
		return neither
	}
}

// decided reports whether more targets can't change the round: enough have answered, or the proxy itself can't be talked to.
func decided(outcomes []probe.Outcome, targets, quorum int) bool {
	if quorum == 0 {
		quorum = targets/2 + 1
	}
	through := 0
	for _, o := range outcomes {
		switch {
		case o.Fault == probe.FaultNone:
			through++
		case o.Fault == probe.FaultProxy && stageOf(o.Reason) != beyond:
			return true
		}
	}
	return through >= quorum
}
