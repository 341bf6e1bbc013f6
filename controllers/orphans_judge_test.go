// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// ours is an instance that is genuinely of an installation, made an hour before noon.
func ours(installation, uid, namespace string) providers.Instance {
	k := providers.Key{InstallationID: installation, ProxyUID: uid, Incarnation: 1, Account: testAccount}
	return providers.Instance{
		Ref: providers.Ref{Account: testAccount, Path: k.Name()}, Name: k.Name(), State: providers.StateRunning, CreatedAt: noon.Add(-time.Hour),
		Tags: providers.Tags{
			ManagedBy: providers.ManagedBy, Installation: installation, OwnerUID: uid, Namespace: namespace, Name: "a", Incarnation: 1, SpecHash: "v1:x",
		},
	}
}

func TestWhatAnInstanceIsTakenFor(t *testing.T) {
	forged := ours("inst", "uid-1", "crawl")
	forged.Name = "web-1"
	madeAgo := func(d time.Duration) providers.Instance {
		i := ours("inst", "uid-1", "crawl")
		i.CreatedAt = noon.Add(-d)
		return i
	}
	undated := ours("inst", "uid-1", "crawl")
	undated.CreatedAt = time.Time{}
	before := noon.Add(-5 * time.Minute)
	cases := map[string]struct {
		why  string
		s    suspect
		want orphanState
	}{
		"with an owner it is owned":                      {s: suspect{Instance: ours("inst", "uid-1", "crawl"), Owned: true, FirstSeen: before}, want: orphanOwned},
		"without one it is sighted first":                {s: suspect{Instance: ours("inst", "uid-1", "crawl")}, want: orphanSighted},
		"and an orphan when it is seen again":            {s: suspect{Instance: ours("inst", "uid-1", "crawl"), FirstSeen: before}, want: orphanProven},
		"a second look within a minute is none":          {s: suspect{Instance: ours("inst", "uid-1", "crawl"), FirstSeen: noon.Add(-59 * time.Second)}, want: orphanSighted},
		"a minute is enough":                             {s: suspect{Instance: ours("inst", "uid-1", "crawl"), FirstSeen: noon.Add(-time.Minute)}, want: orphanProven},
		"at ten minutes it is young":                     {s: suspect{Instance: madeAgo(10 * time.Minute), FirstSeen: before}, want: orphanYoung},
		"above ten minutes it isn't":                     {s: suspect{Instance: madeAgo(10*time.Minute + time.Second), FirstSeen: before}, want: orphanProven},
		"a cloud that lags more has longer":              {s: suspect{Instance: madeAgo(20 * time.Minute), FirstSeen: before, Lag: 10 * time.Minute}, want: orphanYoung},
		"a little lag makes it no longer":                {s: suspect{Instance: madeAgo(11 * time.Minute), FirstSeen: before, Lag: time.Minute}, want: orphanProven},
		"made in the future it is young":                 {why: "clocks differ", s: suspect{Instance: madeAgo(-time.Hour), FirstSeen: before}, want: orphanYoung},
		"without a date it is young at first sight":      {s: suspect{Instance: undated}, want: orphanYoung},
		"and counted from then on":                       {s: suspect{Instance: undated, FirstSeen: before}, want: orphanYoung},
		"until that is ten minutes":                      {s: suspect{Instance: undated, FirstSeen: noon.Add(-11 * time.Minute)}, want: orphanProven},
		"a name that isn't the tags' hash is forged":     {s: suspect{Instance: forged, FirstSeen: before}, want: orphanForeign},
		"another installation's is foreign":              {why: "museum 17", s: suspect{Instance: ours("other", "uid-1", "crawl"), FirstSeen: before}, want: orphanForeign},
		"one of a watched namespace isn't":               {s: suspect{Instance: ours("inst", "uid-1", "crawl"), Watched: []string{"x", "crawl"}, FirstSeen: before}, want: orphanProven},
		"one of a namespace that isn't watched is":       {s: suspect{Instance: ours("inst", "uid-1", "crawl"), Watched: []string{"x"}, FirstSeen: before}, want: orphanForeign},
		"nil watches all namespaces, an empty list none": {s: suspect{Instance: ours("inst", "uid-1", "crawl"), Watched: []string{}, FirstSeen: before}, want: orphanForeign},
		"no tags are nobody's":                           {s: suspect{Instance: providers.Instance{Name: "web-1"}, FirstSeen: before}, want: orphanForeign},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.s.Now, c.s.Installation = noon, "inst"
			require.Equal(t, c.want, c.s.state(), c.why)
		})
	}
}

func TestWhatASweepDoes(t *testing.T) {
	cases := map[string]struct {
		t    tally
		want sweepPlan
	}{
		"one of one is deleted":                        {tally{Total: 1, Orphans: 1}, planDelete},
		"two of three wait for a person":               {tally{Total: 3, Orphans: 2}, planStop},
		"two of nineteen too":                          {tally{Total: 19, Orphans: 2}, planStop},
		"two of twenty are a tenth":                    {tally{Total: 20, Orphans: 2}, planDelete},
		"a hundred of a thousand are":                  {tally{Total: 1000, Orphans: 100}, planDelete},
		"one more isn't":                               {tally{Total: 1000, Orphans: 101}, planStop},
		"those that were just sighted count":           {tally{Total: 100, Orphans: 5, Sighted: 90}, planWait},
		"alone they hold up what is on its way out":    {tally{Total: 100, Sighted: 90}, planWait},
		"few of them hold up nothing":                  {tally{Total: 100, Orphans: 5, Sighted: 5}, planDelete},
		"a person may confirm":                         {tally{Total: 3, Orphans: 3, Confirmed: true}, planDelete},
		"no orphans are no reason to stop":             {tally{Total: 3}, planDelete},
		"mode Report reports, however many":            {tally{Mode: providers.OrphansReport, Total: 3, Orphans: 3}, planReport},
		"and deletes nothing that is confirmed":        {tally{Mode: providers.OrphansReport, Total: 3, Orphans: 3, Confirmed: true}, planReport},
		"a mode that isn't known deletes nothing":      {tally{Mode: "delete", Total: 1, Orphans: 1}, planReport},
		"an account without machines has none to stop": {tally{}, planDelete},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.t.Mode == "" {
				c.t.Mode = providers.OrphansDelete
			}
			require.Equal(t, c.want, c.t.plan())
		})
	}
}
