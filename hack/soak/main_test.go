// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

func TestOptionsComeFromFlags(t *testing.T) {
	got, err := parse([]string{"-proxies=20", "-for=30s", "-kill-every=3s", "-seed=7", "-dir=/x", "-settle=1m", "-binary=b"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, options{
		binary: "b", dir: "/x", proxies: 20, churn: 30 * time.Second, killEvery: 3 * time.Second, settle: time.Minute, seed: 7,
	}, got)

	got, err = parse(nil, io.Discard)
	require.NoError(t, err)
	require.NotZero(t, got.seed, "it is printed, so that the run can be repeated")
	got.seed = 0
	require.Equal(t, options{proxies: 500, churn: 5 * time.Minute, killEvery: 7 * time.Second, settle: 10 * time.Minute}, got)

	for _, args := range [][]string{{"more"}, {"-proxies=0"}, {"-for=0s"}, {"-kill-every=-1s"}, {"-settle=0s"}, {"-unknown"}} {
		var usage bytes.Buffer
		_, err := parse(args, &usage)
		require.Error(t, err, args)
		require.Contains(t, usage.String(), "-kill-every", args)
	}
}

func TestTheSeedDrawsTheChanges(t *testing.T) {
	c := &churner{ports: []int32{1, 2, 3}}
	draw := func(seed uint64) (specs []v1alpha1.ProxySpec) {
		dice := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // choices, no secrets
		for n := range 20 {
			specs = append(specs, c.proxy(nameOf(n), dice).Spec)
		}
		return specs
	}
	require.Equal(t, draw(1), draw(1))
	require.NotEqual(t, draw(1), draw(2))
}

func TestTheLastLineAndTheExitCodeSayWhatIsWrong(t *testing.T) {
	cases := map[string]struct {
		why    string
		change func(*soak)
		line   string
		exact  bool
	}{
		"all is well": {
			why: "nothing differs", change: func(*soak) {}, exact: true,
			line: "soak: 2 proxies, 2 edits, 1 kills; 2 machines, 0 missing, 0 left over",
		},
		"one is missing": {
			why: "a Proxy without its machine", change: func(s *soak) { s.verdict.wrong = map[string][]string{"a": {"x"}}; s.verdict.machines = 1 },
			line: "soak: 2 proxies, 2 edits, 1 kills; 1 machines, 1 missing, 0 left over",
		},
		"some are left over, now and then": {
			why: "they add up", change: func(s *soak) { s.verdict.stray = []string{"x"}; s.left = 2 },
			line: "soak: 2 proxies, 2 edits, 1 kills; 2 machines, 0 missing, 3 left over",
		},
		"one had two for a moment": {
			why: "it is told of when it is seen", change: func(s *soak) { s.doubled.Add(1) },
			line: "soak: 2 proxies, 2 edits, 1 kills; 2 machines, 0 missing, 0 left over",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSoak(options{}, nil, io.Discard, nil)
			s.wanted, _ = exactly()
			s.wanted.edits.Store(2)
			s.kills.Add(1)
			s.proxies, s.verdict.machines = 2, 2
			c.change(s)
			require.Equal(t, c.line, s.line(), c.why)
			require.Equal(t, c.exact, s.exact(), c.why)
		})
	}
}

func TestWhatIsWrongIsToldWithAllThatIsKnownOfIt(t *testing.T) {
	var out bytes.Buffer
	s := newSoak(options{}, &operator.World{}, &out, nil)
	w, now := exactly()
	s.wanted = w
	now.running = append(now.running, machineOf("orphan", "uid-gone", 9))
	lose(&now.running, "a")
	s.describe(now, judge(w, now))
	require.Contains(t, out.String(), `LEFT OVER: machine px-orphan of owner "uid-gone", process 9`)
	require.Contains(t, out.String(), "WRONG: a: it has 0 processes")
	require.Contains(t, out.String(), `"uid":"uid-a"`)
	require.Contains(t, out.String(), "machine: {Dir:/s/px-a")

	log := `{"msg":"1","name":"a"}` + "\n" + `{"msg":"2","name":"ab"}` + "\n" + `{"msg":"3","name":"a"}` + "\n" + `{"msg":"4","name":"a"}` + "\n"
	require.Equal(t, []string{`{"msg":"3","name":"a"}`, `{"msg":"4","name":"a"}`}, linesAbout(log, "a", 2))
}

func TestAVisitAsksForTheLoginThatIsWanted(t *testing.T) {
	asks := login{"u", "p"}
	cases := map[string]struct {
		why     string
		wants   login
		refuses int // what the proxy answers without login; 0: it serves
		says    string
	}{
		"an open proxy":            {why: "nothing is asked for"},
		"a proxy with login":       {why: "it refuses the others", wants: asks, refuses: http.StatusProxyAuthRequired},
		"an open one that asks":    {why: "crawlers couldn't use it", refuses: http.StatusProxyAuthRequired, says: "answered with 407, and should be with 200"},
		"an open one with a login": {why: "anybody could use it", wants: asks, says: "answered with 200, and should be with 407"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := startOrigin()
			require.NoError(t, err)
			defer o.close()
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.refuses != 0 && r.Header.Get("Proxy-Authorization") == "" {
					w.WriteHeader(c.refuses)
					return
				}
				_, _ = io.WriteString(w, r.URL.Path)
			}))
			defer proxy.Close()
			at, err := url.Parse(proxy.URL)
			require.NoError(t, err)
			port, err := strconv.ParseInt(at.Port(), 10, 32)
			require.NoError(t, err)
			p := &v1alpha1.Proxy{Status: v1alpha1.ProxyStatus{IP: at.Hostname(), Port: int32(port)}}
			err = (&soak{origin: o}).visit(t.Context(), p, c.wants)
			if c.says == "" {
				require.NoError(t, err, c.why)
			} else {
				require.ErrorContains(t, err, c.says, c.why)
			}
		})
	}
}
