// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestTargetsThatNoProbeCouldAskForEndTheManager(t *testing.T) {
	cases := map[string]struct {
		why    string
		change func(*healthOptions)
		want   []string // in the message; none: it is taken
	}{
		"none": {"Proxies may name their own", func(*healthOptions) {}, nil},
		"a judge and targets": {"", func(o *healthOptions) {
			o.judgeURL, o.targets = "http://judge.example.com:8080/", []string{"https://a.example", "http://[2001:db8::1]/x?y=z"}
		}, nil},
		"a judge without a scheme":        {"", func(o *healthOptions) { o.judgeURL = "judge:8080" }, []string{"--judge-url", "http or https"}},
		"a port that there isn't":         {"no proxy would ever be Ready", func(o *healthOptions) { o.judgeURL = "http://judge:99999/" }, []string{"--judge-url", "1 to 65535", "such as http://"}},
		"a host that is no name":          {"the same", func(o *healthOptions) { o.targets = []string{"http://a$b/"} }, []string{"--health-target", "the host"}},
		"a blank in the query":            {"the same", func(o *healthOptions) { o.targets = []string{"http://a/?b c"} }, []string{"--health-target", "written with %"}},
		"the second of two":               {"all are looked at", func(o *healthOptions) { o.targets = []string{"http://a/", "b"} }, []string{"--health-target"}},
		"an empty one":                    {"there may be one missing", func(o *healthOptions) { o.targets = []string{"http://a/", ""} }, []string{"--health-target"}},
		"a user name":                     {"it would be in status and log", func(o *healthOptions) { o.targets = []string{"http://user:secret@a/"} }, []string{"--health-target", "without a user name"}},
		"a judge of its own":              {"", func(o *healthOptions) { o.judgeAddress = "127.0.0.1:8082" }, nil},
		"one at a port with a name":       {"one can listen there, but no URL says so", func(o *healthOptions) { o.judgeAddress = "localhost:http" }, []string{"--judge-bind-address=localhost:http", "as a number", "--judge-url"}},
		"one at an address with a zone":   {"the same", func(o *healthOptions) { o.judgeAddress = "[fe80::1%lo]:8082" }, []string{"--judge-bind-address", "--judge-url"}},
		"one anywhere, where a URL tells": {"", func(o *healthOptions) { o.judgeAddress, o.judgeURL = ":8082", "http://judge.example.com:8082/" }, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := healthOptions{interval: time.Second, timeout: time.Second, unhealthyTimeout: time.Minute, bootDeadline: time.Minute, budget: "10%"}
			c.change(&o)
			err := o.validate()
			if c.want == nil {
				require.NoError(t, err, c.why)
				return
			}
			for _, w := range c.want {
				require.ErrorContains(t, err, w, c.why)
			}
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// A comma is a character of URLs: --health-target is given once for each.
func TestATargetMayHaveCommasAndQuotes(t *testing.T) {
	var o healthOptions
	f := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	o.flags(f)
	require.NoError(t, f.Parse([]string{"--health-target=http://example.com/?a=1,2", `--health-target=http://example.com/"x`}))
	require.Equal(t, []string{"http://example.com/?a=1,2", `http://example.com/"x`}, o.targets)
	require.NoError(t, o.validate())
}
