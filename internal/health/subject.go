// SPDX-License-Identifier: Apache-2.0

// Package health decides which proxies work. It probes each through itself at its interval, judges rounds of probes, and
// keeps one verdict per proxy. It knows nothing of Kubernetes: who watches a proxy says what it is and asks for the verdict.
//
// All rules are in functions without clock, lock or goroutine (round.go, standing.go, cadence.go, witness.go, guard.go);
// core.go keeps the books, one caller at a time; engine.go adds the goroutines.
package health

import (
	"slices"
	"time"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

// Health is what is known about a proxy.
type Health string

// The verdicts.
const (
	Unknown   Health = "Unknown"   // no round has decided yet
	Healthy   Health = "Healthy"   // real requests go through
	Unhealthy Health = "Unhealthy" // they don't, and it is the proxy's fault
)

// Subject is one proxy to watch. Its slices and pools are kept, so that the caller must not change them afterwards; subjects
// that share a target should share its RootCAs too, since they then share one control probe.
type Subject struct {
	UID         string
	Incarnation int64
	Pool        string // account + "/" + zone, the group of the correlated-failure guard; "external" for mode External
	Proxy       probe.Proxy
	Targets     []probe.Target
	Quorum      int // how many targets must answer; 0: the majority of those that aren't down themselves

	Interval, Timeout                  time.Duration // from round to round, 0: 30 s; of one probe, 0: 10 s
	FailureThreshold, SuccessThreshold int           // rounds in a row; less than 1 counts as 1
	CheckOpen                          bool          // the proxy asks for credentials, so it must refuse who has none

	// What status says of that very machine. It counts as long as the rounds of this process have decided nothing: a view may
	// have been old at first.
	Prior       Health
	PriorReason probe.Reason
	PriorExitIP string
}

// Verdict is what the engine thinks of a subject.
type Verdict struct {
	UID         string
	Incarnation int64
	Health      Health
	Reason      probe.Reason // why it isn't healthy; Healthy; empty while nothing is known
	ExitIP      string       // empty: unknown, or another with every request
	Anonymity   string
	Since       time.Time // of Health
	Hearsay     bool      // no round has decided it yet: it is what status said, or Unknown
	Doubted     bool      // not Healthy, and the newest round doesn't blame the proxy, or there was none: what made it ill may be over
}

func (s Subject) withDefaults() Subject {
	s.Quorum = min(max(0, s.Quorum), len(s.Targets))
	if s.Interval <= 0 {
		s.Interval = 30 * time.Second
	}
	if s.Timeout <= 0 {
		s.Timeout = 10 * time.Second
	}
	s.FailureThreshold, s.SuccessThreshold = max(1, s.FailureThreshold), max(1, s.SuccessThreshold)
	return s
}

// sameMachine reports whether a verdict on b holds for a.
func sameMachine(a, b *Subject) bool {
	return a.Incarnation == b.Incarnation && a.Proxy.Host == b.Proxy.Host && a.Proxy.Port == b.Proxy.Port && a.Proxy.Protocol == b.Proxy.Protocol
}

// sameSubject reports whether a and b are watched in the same way. What came before doesn't matter any more.
func sameSubject(a, b *Subject) bool {
	return sameMachine(a, b) && sameProxy(a.Proxy, b.Proxy) && a.Pool == b.Pool && sameRules(a, b) &&
		slices.EqualFunc(a.Targets, b.Targets, sameTarget)
}

func sameRules(a, b *Subject) bool {
	return a.Quorum == b.Quorum && a.Interval == b.Interval && a.Timeout == b.Timeout && a.CheckOpen == b.CheckOpen &&
		a.FailureThreshold == b.FailureThreshold && a.SuccessThreshold == b.SuccessThreshold
}

func sameProxy(a, b probe.Proxy) bool {
	roots := a.RootCAs.Equal(b.RootCAs)
	a.RootCAs, b.RootCAs = nil, nil
	return roots && a == b
}

func sameTarget(a, b probe.Target) bool {
	return a.URL == b.URL && a.Judge == b.Judge && a.Trusted == b.Trusted && slices.Equal(a.ExpectStatus, b.ExpectStatus) &&
		a.RootCAs.Equal(b.RootCAs)
}
