// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGuard(t *testing.T) {
	cases := map[string]struct {
		why         string
		members     int
		falls       int
		apart       time.Duration
		sameSubject bool
		want        bool
	}{
		"five of ten in a minute":             {why: "more than 40 %", members: 10, falls: 5, apart: 10 * time.Second, want: true},
		"five of twelve in a minute":          {why: "41.7 %", members: 12, falls: 5, apart: 10 * time.Second, want: true},
		"six of fifteen in a minute":          {why: "40 % isn't over 40 %", members: 15, falls: 6, apart: 10 * time.Second, want: false},
		"four of four":                        {why: "fewer than five are no pattern", members: 4, falls: 4, apart: time.Second, want: false},
		"five of ten in ten minutes":          {why: "never five within five minutes", members: 10, falls: 5, apart: 2 * time.Minute, want: false},
		"five of five just within the window": {why: "the oldest still counts", members: 5, falls: 5, apart: 74 * time.Second, want: true},
		"one that flaps ten times":            {why: "one proxy is one proxy", members: 10, falls: 10, apart: time.Second, sameSubject: true, want: false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := &pool{}
			for i := range c.members {
				p.join(fmt.Sprint(i), false, start)
			}
			now, turned := start, 0
			for i := range c.falls {
				if c.sameSubject {
					i = 0
				}
				if p.fall(fmt.Sprint(i), now) {
					turned++
				}
				now = now.Add(c.apart)
			}
			require.Equal(t, c.want, p.held, c.why)
			require.LessOrEqual(t, turned, 1, "told once")
		})
	}
}

func TestHoldEndsWithoutNewFalls(t *testing.T) {
	p := &pool{}
	for i := range 6 {
		p.join(fmt.Sprint(i), false, start)
	}
	for i := range 5 {
		p.fall(fmt.Sprint(i), start)
	}
	require.True(t, p.held)
	later := start.Add(4 * time.Minute)
	require.False(t, p.fall("5", later), "it is held already")
	require.False(t, p.step(start.Add(guardWindow)), "one more fall, five minutes more")
	require.Equal(t, later.Add(guardWindow), p.next())
	require.True(t, p.step(later.Add(guardWindow)))
	require.False(t, p.held)
	require.Zero(t, p.next())
	require.False(t, p.fall("0", later.Add(guardWindow)), "those of before are forgotten")
}

func TestGuardAfterARestart(t *testing.T) {
	p := &pool{}
	for i := range 5 {
		p.join(fmt.Sprint(i), true, start)
	}
	require.False(t, p.held, "the first to be watched are no pool yet")
	for i := range 5 {
		p.join(fmt.Sprint(10+i), false, start.Add(time.Second))
	}
	require.False(t, p.step(start.Add(guardSettles)))
	require.True(t, p.step(start.Add(time.Second+guardSettles)), "half of the pool was unhealthy before")
	require.True(t, p.step(start.Add(guardWindow)), "the hold ends as others do")
	require.False(t, p.held)
}

func TestMembersWhoLeaveAreNotCounted(t *testing.T) {
	p := &pool{}
	for i := range 8 {
		p.join(fmt.Sprint(i), false, start)
	}
	for i := range 4 {
		p.fall(fmt.Sprint(i), start)
		p.leave(fmt.Sprint(i), true)
	}
	require.False(t, p.fall("7", start), "one of four")
	p.join("7", false, start)
	p.leave("7", false)
	require.Contains(t, p.fell, "7", "a new machine doesn't undo the fall of the last")
}
