// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

// rounds plays one letter a round, one round a minute: g is good, b and c are bad for different reasons, n says nothing,
// O finds an open proxy with a good round, C a closed one.
func rounds(s standing, t thresholds, script string) standing {
	now := s.since
	for _, r := range script {
		now = now.Add(time.Minute)
		switch r {
		case 'g', 'O', 'C':
			s = s.after(finding{kind: good, reason: probe.ReasonHealthy}, t, now)
		case 'b':
			s = s.after(finding{kind: bad, reason: probe.ReasonTimeout}, t, now)
		case 'c':
			s = s.after(finding{kind: bad, reason: probe.ReasonReset}, t, now)
		case 'n':
			s = s.after(finding{kind: neither, reason: probe.ReasonTargetError}, t, now)
		}
		if r == 'O' || r == 'C' {
			s = s.opened(r == 'O', now)
		}
	}
	return s
}

func TestStanding(t *testing.T) {
	cases := map[string]struct {
		why    string
		from   Health
		script string
		want   Health
		reason probe.Reason
	}{
		"one good round makes a new proxy healthy":               {why: "it works", script: "g", want: Healthy, reason: probe.ReasonHealthy},
		"a new proxy that boots isn't unhealthy yet":             {why: "fewer bad rounds than the threshold", script: "bb", want: Unknown},
		"a new proxy that never works is unhealthy":              {why: "as many as the threshold", script: "bbb", want: Unhealthy, reason: probe.ReasonTimeout},
		"a new proxy behind a target that is down stays unknown": {why: "nobody knows", script: "nn", want: Unknown},
		"who waits for a target that is down learns why":         {why: "else nothing tells why there is no verdict", script: "nnn", want: Unknown, reason: probe.ReasonTargetError},
		"a healthy proxy survives fewer bad rounds":              {why: "hysteresis", from: Healthy, script: "bbgbbg", want: Healthy, reason: probe.ReasonHealthy},
		"a healthy proxy falls at the threshold":                 {why: "three in a row", from: Healthy, script: "gbbb", want: Unhealthy, reason: probe.ReasonTimeout},
		"a round that says nothing leaves the streak":            {why: "it neither clears nor condemns", from: Healthy, script: "bnbnb", want: Unhealthy, reason: probe.ReasonTimeout},
		"a target that is down for long changes nothing":         {why: "a target outage condemns nobody", from: Healthy, script: "nnnnnnnnnn", want: Healthy, reason: probe.ReasonHealthy},
		"an unhealthy proxy needs more than one good round":      {why: "hysteresis", from: Unhealthy, script: "gbg", want: Unhealthy, reason: probe.ReasonTimeout},
		"an unhealthy proxy recovers at the threshold":           {why: "two in a row", from: Unhealthy, script: "bgg", want: Healthy, reason: probe.ReasonHealthy},
		"another reason shows when it lasts":                     {why: "status tells what is wrong now", script: "bbbccc", want: Unhealthy, reason: probe.ReasonReset},
		"a reason that comes and goes isn't shown":               {why: "status isn't written with each probe", script: "bbbcbccbccb", want: Unhealthy, reason: probe.ReasonTimeout},
		"an open proxy is unhealthy at once":                     {why: "it serves anybody", script: "O", want: Unhealthy, reason: probe.ReasonOpenProxy},
		"a healthy proxy that opens is unhealthy at once":        {why: "it serves anybody", from: Healthy, script: "ggO", want: Unhealthy, reason: probe.ReasonOpenProxy},
		"good rounds don't heal an open proxy":                   {why: "they go through because it is open", script: "OgggggggggO", want: Unhealthy, reason: probe.ReasonOpenProxy},
		"an open proxy that is closed recovers":                  {why: "and needs its good rounds after that", script: "OggC", want: Unhealthy, reason: probe.ReasonOpenProxy},
		"an open proxy that was closed has recovered":            {why: "two since it was closed", script: "OggCg", want: Healthy, reason: probe.ReasonHealthy},
		"an open proxy that is down as well says so":             {why: "what fails now", script: "Obbb", want: Unhealthy, reason: probe.ReasonTimeout},
		"an unhealthy proxy that is found open says that":        {why: "it is the worse of the two", script: "bbbO", want: Unhealthy, reason: probe.ReasonOpenProxy},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := standing{health: Unknown, since: start}
			switch c.from {
			case Healthy:
				s.health, s.reason = Healthy, probe.ReasonHealthy
			case Unhealthy:
				s.health, s.reason = Unhealthy, probe.ReasonTimeout
			case Unknown:
			}
			s = rounds(s, thresholds{failure: 3, success: 2}, c.script)
			require.Equal(t, c.want, s.health, c.why)
			require.Equal(t, c.reason, s.reason, c.why)
		})
	}
}

func TestFlapsCostGoodRounds(t *testing.T) {
	limits := thresholds{failure: 1, success: 2}
	s := standing{health: Healthy, since: start}
	now := start
	play := func(k kind) { s = s.after(finding{kind: k, reason: probe.ReasonTimeout}, limits, now) }
	needed := func() int {
		play(bad)
		require.Equal(t, Unhealthy, s.health)
		n := 0
		for s.health == Unhealthy {
			now = now.Add(time.Second)
			play(good)
			n++
		}
		return n
	}
	require.Equal(t, []int{2, 4, 8, 16, 32, 64, 64}, []int{needed(), needed(), needed(), needed(), needed(), needed(), needed()},
		"each flap doubles, up to a bound")
	now = now.Add(5 * flapDecay)
	require.Equal(t, 8, needed(), "each quiet while takes one back")
	now = now.Add(24 * time.Hour)
	require.Equal(t, 2, needed(), "and all is forgiven")
}

func TestWhatWentThroughAnOpenProxyDoesNotCount(t *testing.T) {
	limits := thresholds{failure: 3, success: 3}
	open := rounds(standing{health: Unknown, since: start}, limits, "OggggC")
	require.Equal(t, Unhealthy, rounds(open, limits, "g").health, "two since it was closed")
	require.Equal(t, Healthy, rounds(open, limits, "gg").health, "three")
}

func TestFailingIsSinceTheLastGoodRound(t *testing.T) {
	limits := thresholds{failure: 3, success: 2}
	s := standing{health: Healthy, since: start}
	require.Equal(t, start.Add(2*time.Minute), rounds(s, limits, "gbnb").failing)
	require.Zero(t, rounds(s, limits, "gbnbg").failing)
}

func TestSinceIsOfTheHealth(t *testing.T) {
	s := rounds(standing{health: Unknown, since: start}, thresholds{failure: 2, success: 1}, "gggbbb")
	require.Equal(t, start.Add(5*time.Minute), s.since)
}

func TestExit(t *testing.T) {
	cases := map[string]struct {
		why    string
		script string
		want   string
	}{
		"the first answer tells":                            {why: "there is nothing to compare it with", script: "a", want: "a"},
		"an answer that tells nothing leaves it":            {why: "not every target is a judge", script: "a--", want: "a"},
		"another address is shown when it lasts":            {why: "it has moved", script: "abbb", want: "b"},
		"another address isn't shown at once":               {why: "it may be a slip", script: "abb", want: "a"},
		"one that comes and goes isn't shown":               {why: "status isn't written with each probe", script: "abababab", want: "a"},
		"a gateway with another address each time has none": {why: "whatever it showed would be wrong", script: "abcd", want: ""},
		"and goes on having none":                           {why: "a short run is chance", script: "abcdeefgghhhii", want: ""},
		"until one lasts for long":                          {why: "it isn't one any more", script: "abcdeeeeeeeee", want: "e"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var e exit
			for _, ip := range c.script {
				if ip == '-' {
					e = e.after("")
					continue
				}
				e = e.after(string(ip))
			}
			require.Equal(t, c.want, e.shown, c.why)
		})
	}
}
