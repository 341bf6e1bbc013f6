// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

func gotThrough() probe.Outcome {
	return probe.Outcome{Fault: probe.FaultNone, Reason: probe.ReasonHealthy, ExitIP: "198.51.100.1"}
}

func fault(r probe.Reason) probe.Outcome { return probe.Outcome{Fault: probe.FaultProxy, Reason: r} }

func targets(r probe.Reason) probe.Outcome {
	return probe.Outcome{Fault: probe.FaultTarget, Reason: r}
}

func TestBlameFor(t *testing.T) {
	const early, late = time.Second, time.Hour
	twoPools := crowd{stuck: 4, through: 1, stuckPools: 2, unreachedPools: 1}
	cases := map[string]struct {
		why     string
		o       probe.Outcome
		control control
		crowd   crowd
		others  int
		failing time.Duration
		never   bool // nobody has got through to the target yet
		want    blame
	}{
		"a target that nobody has seen answer accuses nobody": {
			why: "it may be down since before the operator started: then healthy proxies were replaced for it",
			o:   fault(probe.ReasonTargetUnreachable), failing: late, never: true, want: excused,
		},
		"a proxy that says nothing accuses itself though nobody has seen the target": {
			why: "the target was never in play", o: fault(probe.ReasonConnectTimeout), failing: late, never: true, want: failed,
		},
		"an answer is an answer": {
			why: "whatever the control says", o: gotThrough(), control: controlDown, want: answered,
		},
		"the target's own error is never the proxy's fault": {
			why: "a 503 that came through the proxy proves the proxy", o: targets(probe.ReasonTargetError), control: controlUp, want: excused,
		},
		"what nobody can tell is never the proxy's fault": {
			why: "this machine ran out of ports", o: probe.Outcome{Fault: probe.FaultUnclear, Reason: probe.ReasonLocalError}, control: controlUp, want: excused,
		},
		"a refused connection is the proxy's fault though the target is down": {
			why: "the target was never in play", o: fault(probe.ReasonConnectRefused), control: controlDown, crowd: twoPools, want: failed,
		},
		"a 407 is the proxy's fault though everybody gets one": {
			why: "claffin/cloudproxy counts it as alive", o: fault(probe.ReasonAuthFailed), crowd: twoPools, want: failed,
		},
		"a proxy's error is its own while the target answers without it": {
			why: "the control tells the two apart", o: fault(probe.ReasonProxyError), control: controlUp, crowd: twoPools, want: failed,
		},
		"a proxy's error is excused while the target doesn't answer without it either": {
			why: "a 502 is what an honest proxy says then", o: fault(probe.ReasonProxyError), control: controlDown, want: excused,
		},
		"a failing control is overruled by proxies that get through": {
			why: "the target may have banned the operator's address alone", o: fault(probe.ReasonProxyError), control: controlDown,
			crowd: crowd{through: 3, stuck: 1, stuckPools: 2}, want: failed,
		},
		"without a control, most of several pools failing makes it the target's fault": {
			why: "no direct way from here: the quorum across proxies decides", o: fault(probe.ReasonProxyError), crowd: twoPools, others: 5, want: excused,
		},
		"without a control, a pool that fails alone has only itself to blame": {
			why: "what its proxies share is theirs", o: fault(probe.ReasonProxyError), crowd: crowd{stuck: 4, stuckPools: 1}, others: 5, want: failed,
		},
		"without a control, a proxy that fails where others get through is at fault": {
			why: "they prove the target", o: fault(probe.ReasonTimeout), crowd: crowd{through: 2, stuck: 1, stuckPools: 2}, others: 5, want: failed,
		},
		"without a control, the first to fail waits for the others": {
			why: "who is probed first after an outage must not fall before the others are heard", o: fault(probe.ReasonTimeout), others: 5, failing: early, want: pending,
		},
		"the wait for others ends": {
			why: "they may be down themselves and never be heard", o: fault(probe.ReasonTimeout), others: 5, failing: late, want: failed,
		},
		"without a control and without others a failure is taken for what it looks like": {
			why: "there is nobody to ask", o: fault(probe.ReasonTimeout), want: failed,
		},
		"a proxy that can't be reached is at fault while others are reached, though the target is down": {
			why: "the network from here to proxies works", o: fault(probe.ReasonConnectTimeout), control: controlDown,
			crowd: crowd{stuck: 4, stuckPools: 2, unreachedPools: 1}, want: failed,
		},
		"a proxy that can't be reached is excused while nothing else is either": {
			why: "the operator's own network is down", o: fault(probe.ReasonConnectTimeout), control: controlDown,
			crowd: crowd{unreached: 4, unreachedPools: 2}, want: excused,
		},
		"without a control, most of several pools out of reach makes it the operator's fault": {
			why: "no two pools die at once", o: fault(probe.ReasonUnreachable), crowd: crowd{unreached: 4, refused: 1, unreachedPools: 2}, others: 5, want: excused,
		},
		"a proxy that can't be reached is at fault while the target is reached directly": {
			why: "the operator's network works", o: fault(probe.ReasonConnectTimeout), control: controlUp, crowd: crowd{unreached: 4, unreachedPools: 2}, want: failed,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := blameFor(c.o, evidence{control: c.control, reached: !c.never, crowd: c.crowd, others: c.others, failing: c.failing, wait: time.Minute})
			require.Equal(t, c.want, got, c.why)
		})
	}
}

func TestJudge(t *testing.T) {
	cases := map[string]struct {
		why    string
		blames []blame
		quorum int
		want   kind
		doubt  bool
	}{
		"one target that answers":                                       {why: "traffic gets through", blames: []blame{answered}, want: good},
		"one target that fails":                                         {why: "it doesn't", blames: []blame{failed}, want: bad},
		"one target that is down":                                       {why: "TargetDown changes no verdict", blames: []blame{excused}, want: neither},
		"one target that nobody can tell of yet":                        {why: "others are heard first", blames: []blame{pending}, want: neither, doubt: true},
		"the majority answers":                                          {why: "two of three", blames: []blame{answered, answered, failed}, want: good},
		"the majority fails":                                            {why: "one of three", blames: []blame{answered, failed, failed}, want: bad},
		"half isn't a majority":                                         {why: "one of two", blames: []blame{answered, failed}, want: bad},
		"a target that is down doesn't count for the majority":          {why: "one of one", blames: []blame{answered, excused, excused}, want: good},
		"a target that is down doesn't hide a failure":                  {why: "none of one", blames: []blame{failed, excused, excused}, want: bad},
		"a target that wasn't needed doesn't count":                     {why: "two of two", blames: []blame{answered, answered, unasked}, want: good},
		"a quorum of one is met by one":                                 {why: "that is what it says", blames: []blame{answered, failed, failed}, quorum: 1, want: good},
		"a quorum of all isn't met by most":                             {why: "that is what it says", blames: []blame{answered, answered, failed}, quorum: 3, want: bad},
		"a quorum that a target which is down could meet stays open":    {why: "nobody can tell", blames: []blame{answered, excused, failed}, quorum: 2, want: neither},
		"a quorum that a target which is down could not meet is missed": {why: "even with it there were two", blames: []blame{answered, excused, failed}, quorum: 3, want: bad},
		"a quorum that is met in spite of a target that is down":        {why: "two have answered", blames: []blame{answered, excused, answered}, quorum: 2, want: good},
		"no target": {why: "nothing was asked", want: neither},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := judge(make([]probe.Outcome, len(c.blames)), c.blames, c.quorum)
			require.Equal(t, c.want, f.kind, c.why)
			require.Equal(t, c.doubt, f.doubt, c.why)
		})
	}
}

func TestJudgeTellsWhatMatters(t *testing.T) {
	elite := gotThrough()
	elite.Anonymity = probe.AnonymityElite
	f := judge([]probe.Outcome{targets(probe.ReasonTargetError), elite}, []blame{excused, answered}, 0)
	require.Equal(t, finding{kind: good, reason: probe.ReasonHealthy, exitIP: "198.51.100.1", anonymity: probe.AnonymityElite}, f)

	f = judge([]probe.Outcome{targets(probe.ReasonTargetError), fault(probe.ReasonTimeout), fault(probe.ReasonReset)}, []blame{excused, failed, failed}, 0)
	require.Equal(t, probe.ReasonTimeout, f.reason, "the proxy's own fault before the target's, and the first of those")

	f = judge([]probe.Outcome{targets(probe.ReasonTargetError)}, []blame{excused}, 0)
	require.Equal(t, probe.ReasonTargetError, f.reason)
}

func TestDecided(t *testing.T) {
	ok := gotThrough()
	cases := map[string]struct {
		why             string
		outcomes        []probe.Outcome
		targets, quorum int
		want            bool
	}{
		"one of one":                             {why: "all were asked", outcomes: []probe.Outcome{ok}, targets: 1, want: true},
		"one of three":                           {why: "the others may fail", outcomes: []probe.Outcome{ok}, targets: 3, want: false},
		"two of three":                           {why: "the third can't change it", outcomes: []probe.Outcome{ok, ok}, targets: 3, want: true},
		"a quorum of one":                        {why: "it is met", outcomes: []probe.Outcome{ok}, targets: 3, quorum: 1, want: true},
		"a proxy that can't be talked to":        {why: "another target would say the same", outcomes: []probe.Outcome{fault(probe.ReasonConnectTimeout)}, targets: 3, want: true},
		"a proxy that doesn't get to one target": {why: "it may get to others", outcomes: []probe.Outcome{fault(probe.ReasonProxyError)}, targets: 3, want: false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, decided(c.outcomes, c.targets, c.quorum), c.why)
		})
	}
}

func TestStageOf(t *testing.T) {
	for want, reasons := range map[stage][]probe.Reason{
		toProxy: {probe.ReasonDNSError, probe.ReasonConnectTimeout, probe.ReasonUnreachable},
		atProxy: {
			probe.ReasonConnectRefused, probe.ReasonTLSError, probe.ReasonAuthRequired, probe.ReasonAuthFailed, probe.ReasonBadAnswer,
			probe.ReasonProxyDenied, probe.ReasonOpenProxy,
		},
		beyond: {
			probe.ReasonProxyError, probe.ReasonTimeout, probe.ReasonReset, probe.ReasonNoAnswer, probe.ReasonTruncated, probe.ReasonTunnelBroken,
			probe.ReasonRefused, probe.ReasonAltered, probe.ReasonTargetUnreachable, "SomethingNew",
		},
	} {
		for _, r := range reasons {
			require.Equal(t, want, stageOf(r), r)
		}
	}
}
