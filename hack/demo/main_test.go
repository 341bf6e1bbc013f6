// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptionsComeFromFlagsAndEnvironment(t *testing.T) {
	cases := map[string]struct {
		why  string
		once string
		args []string
		want options
	}{
		"nothing is set":             {why: "it stays up", want: options{timeout: 5 * time.Minute}},
		"ONCE=1":                     {why: "as the README says", once: "1", want: options{once: true, timeout: 5 * time.Minute}},
		"ONCE=0":                     {why: "make users write so for no", once: "0", want: options{timeout: 5 * time.Minute}},
		"the flag overrules":         {why: "it is nearer", once: "1", args: []string{"-once=false"}, want: options{timeout: 5 * time.Minute}},
		"a binary and another limit": {why: "they are flags", args: []string{"-binary=x", "-timeout=1s"}, want: options{binary: "x", timeout: time.Second}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parse(c.args, func(string) string { return c.once }, &bytes.Buffer{})
			require.NoError(t, err)
			require.Equal(t, c.want, got, c.why)
		})
	}
}

func TestAnUnknownArgumentIsRefusedWithTheUsage(t *testing.T) {
	for _, arg := range []string{"ONCE=1", "-unknown"} {
		var usage bytes.Buffer
		_, err := parse([]string{arg}, func(string) string { return "" }, &usage)
		require.Error(t, err)
		require.Contains(t, usage.String(), "-binary")
	}
}

func TestTheLastLineCountsEachProxyOnce(t *testing.T) {
	c := newTally()
	c.isReady("a")
	c.isReady("a")
	c.isReady("b")
	c.request(true)
	c.request(true)
	require.True(t, c.good())
	require.Equal(t, "demo: 2 proxies ready, 2 requests through them, 0 failed, 0 left behind", c.line())
}

func TestOneFailureOrLeftoverMakesTheDemoBad(t *testing.T) {
	cases := map[string]struct {
		do   func(*tally)
		want string
	}{
		"a request failed":          {func(c *tally) { c.request(false) }, "demo: 0 proxies ready, 1 requests through them, 1 failed, 0 left behind"},
		"a check failed":            {func(c *tally) { c.failure() }, "demo: 0 proxies ready, 0 requests through them, 1 failed, 0 left behind"},
		"something was left behind": {func(c *tally) { c.leftBehind(2) }, "demo: 0 proxies ready, 0 requests through them, 0 failed, 2 left behind"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tally := newTally()
			c.do(tally)
			require.False(t, tally.good())
			require.Equal(t, c.want, tally.line())
		})
	}
}
