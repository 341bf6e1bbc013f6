// SPDX-License-Identifier: Apache-2.0

package health

import (
	"hash/fnv"
	"time"
)

const (
	hurried   = 4                // how much faster where a verdict is near
	fastest   = time.Second      // but not faster than this
	patience  = 15 * time.Minute // who gives no answer for longer isn't booting any more
	longTime  = time.Hour        // healthy for this long: slowest
	jitterPct = 10               // rounds come up to this much early, never late
)

// hurry is the period while a verdict is near.
func hurry(interval time.Duration) time.Duration {
	return min(interval, max(interval/hurried, fastest))
}

// period is the time from one round to the next: shorter while a verdict is near, longer, up to stretch times, for who has
// been healthy for long. Targets that are down are asked no faster.
func period(s standing, interval time.Duration, stretch float64, now time.Time) time.Duration {
	held := now.Sub(s.since)
	switch {
	case s.last.doubt:
		return hurry(interval)
	case s.last.kind == neither && s.last.reason != "":
		return interval
	case s.health == Unknown && held < patience,
		s.health == Healthy && s.bad > 0,
		s.health == Unhealthy && s.good > 0 && !s.open:
		return hurry(interval)
	case s.health == Healthy && stretch > 1:
		long := min(1, held.Seconds()/longTime.Seconds())
		return time.Duration(float64(interval) * (1 + (stretch-1)*long))
	default:
		return interval
	}
}

// jittered takes a little off a period, so that subjects don't fall into step with each other or with what they are probing.
func jittered(d time.Duration, share float64) time.Duration {
	return d - part(d, share)*jitterPct/100
}

func part(d time.Duration, share float64) time.Duration { return time.Duration(float64(d) * share) }

// share is a number in [0, 1), the same for the same seed, UID and count.
func share(seed uint64, uid string, count uint64) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid))
	x := h.Sum64() ^ seed ^ count*0x9e3779b97f4a7c15
	// The finish of splitmix64: FNV alone leaves the high bits of short keys alike.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}
