// SPDX-License-Identifier: Apache-2.0

package providers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

func TestLimitsAndOrphansOfAnAccount(t *testing.T) {
	nothing := providers.Limits{}
	cases := map[string]struct {
		account []string
		limits  providers.Limits
		orphans providers.OrphanMode
	}{
		"nothing is written":                   {[]string{"type: local"}, nothing, providers.OrphansDelete},
		"nothing is written for a cloud":       {[]string{"type: gcp", "gcp: {project: p}"}, nothing, providers.OrphansReport},
		"nothing is written for a cluster":     {[]string{"type: kubernetes"}, nothing, providers.OrphansDelete},
		"all of it":                            {[]string{"type: local", "limits: {callsPerSecond: 2.5, burst: 7, maxInstances: 100}", "orphans: Off"}, providers.Limits{CallsPerSecond: 2.5, Burst: 7, MaxInstances: 100}, providers.OrphansOff},
		"a whole number for a rate":            {[]string{"type: local", "limits: {callsPerSecond: 20}"}, providers.Limits{CallsPerSecond: 20}, providers.OrphansDelete},
		"deleting in a cloud is asked for":     {[]string{"type: gcp", "gcp: {project: p}", "orphans: Delete"}, nothing, providers.OrphansDelete},
		"fields without a value are left out":  {[]string{"type: local", "limits: {burst: ~}", "orphans:"}, nothing, providers.OrphansDelete},
		"limits without a value are left out":  {[]string{"type: local", "limits:"}, nothing, providers.OrphansDelete},
		"reporting on this machine is allowed": {[]string{"type: local", "orphans: Report"}, nothing, providers.OrphansReport},
	}
	known := types()
	known["kubernetes"] = known["local"]
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			file := lines("accounts:", "- name: a")
			for _, l := range c.account {
				file += "  " + l + "\n"
			}
			reg, err := providers.ParseConfig([]byte(file), known)
			require.NoError(t, err)
			require.Equal(t, c.limits, reg["a"].Limits)
			require.Equal(t, c.orphans, reg["a"].Orphans)
		})
	}
}

func TestBadLimitsAndOrphans(t *testing.T) {
	cases := map[string]struct{ field, want string }{
		"a rate of nothing":       {"limits: {callsPerSecond: 0}", `line 4: accounts[0].limits.callsPerSecond: must be more than 0, not "0"; leave it out for the default`},
		"a rate below nothing":    {"limits: {callsPerSecond: -1}", `accounts[0].limits.callsPerSecond: must be more than 0, not "-1"`},
		"a rate without end":      {"limits: {callsPerSecond: .inf}", `accounts[0].limits.callsPerSecond: must be more than 0, not ".inf"`},
		"a rate that is none":     {"limits: {callsPerSecond: .nan}", `accounts[0].limits.callsPerSecond: must be more than 0, not ".nan"`},
		"a rate in words":         {"limits: {callsPerSecond: twenty}", `accounts[0].limits.callsPerSecond: must be a number, not "twenty"`},
		"a burst of nothing":      {"limits: {burst: 0}", `accounts[0].limits.burst: must be more than 0, not "0"`},
		"a part of a call":        {"limits: {burst: 1.5}", `accounts[0].limits.burst: must be a whole number of at most 64 bits, not "1.5"`},
		"no machine at all":       {"limits: {maxInstances: 0}", `accounts[0].limits.maxInstances: must be more than 0, not "0"`},
		"fewer than no machine":   {"limits: {maxInstances: -3}", `accounts[0].limits.maxInstances: must be more than 0, not "-3"`},
		"a list of machines":      {"limits: {maxInstances: [1]}", "accounts[0].limits.maxInstances: must be a whole number of at most 64 bits, not a list"},
		"an unknown limit":        {"limits: {maxInstance: 3}", "accounts[0].limits.maxInstance: is not a field; known here: callsPerSecond, burst, maxInstances"},
		"a limit twice":           {"limits: {burst: 3, burst: 4}", "accounts[0].limits.burst: is set twice"},
		"a number for the limits": {"limits: 100", `accounts[0].limits: must be a mapping, not "100"`},
		"an unknown mode":         {"orphans: Destroy", `line 4: accounts[0].orphans: "Destroy" is not known; use one of: Off, Report, Delete`},
		"a mode in small letters": {"orphans: off", `accounts[0].orphans: "off" is not known; use one of: Off, Report, Delete`},
		"an empty mode":           {"orphans: ''", `accounts[0].orphans: "" is not known; use one of: Off, Report, Delete`},
		"a list of modes":         {"orphans: [Off]", "accounts[0].orphans: must be a string, not a list"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := providers.ParseConfig([]byte(lines("accounts:", "- name: a", "  type: local", "  "+c.field)), types())
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := providers.ParseConfig([]byte(lines("accounts:", "- name: a", "  type: local", "  limits:", "    maxInstances: 0", "    burst: -1", "  orphans: x")), types())
	require.ErrorContains(t, err, "line 5: accounts[0].limits.maxInstances")
	require.ErrorContains(t, err, "line 6: accounts[0].limits.burst")
	require.ErrorContains(t, err, "line 7: accounts[0].orphans")
}

// TestLimitsAreNoInputOfARequest: a failure that waits for its inputs to change isn't tried again because a limit changed,
// and a type that deletes orphans makes no other machines.
func TestLimitsAreNoInputOfARequest(t *testing.T) {
	fingerprint := func(l ...string) string {
		reg, err := providers.ParseConfig([]byte(lines(append([]string{"accounts:", "- name: a", "  type: local"}, l...)...)), types())
		require.NoError(t, err)
		return reg["a"].Fingerprint
	}
	plain := fingerprint()
	require.Equal(t, plain, fingerprint("  limits: {maxInstances: 3}"))
	require.Equal(t, plain, fingerprint("  orphans: Off", "  limits: {burst: 1}"))
	require.Equal(t, plain, fingerprint("  orphans: Report"))
	require.NotEqual(t, plain, fingerprint("  allowedNamespaces: [crawl]"))
	require.Equal(t, fingerprint("  local: {dir: limits}"), fingerprint("  local: {dir: limits}", "  limits: {burst: 2}"))
	require.NotEqual(t, fingerprint("  local: {dir: limits}"), fingerprint("  local: {dir: orphans}"))
}
