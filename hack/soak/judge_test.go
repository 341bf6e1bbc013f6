// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// exactly is a world as wanted: a, which has a login and user data from Secrets, and b, which has neither.
func exactly() (*wanted, *seen) {
	w := newWanted()
	w.created("a", "uid-a")
	w.created("b", "uid-b")
	w.wroteUserData("data", "#cloud-config\n")
	w.wroteLogin("login", login{"u", "p"})
	s := &seen{inputs: map[string]inputs{}}
	for name, uid := range w.proxies {
		m := machineOf(name, string(uid), len(s.folders)+1)
		s.folders, s.running = append(s.folders, m), append(s.running, m)
		s.proxies = append(s.proxies, proxyOf(name, uid, m))
	}
	s.proxy("a").Spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: "data"}}
	s.proxy("a").Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "login"}}
	s.inputs["/s/px-a"] = inputs{userData: "#cloud-config\n", login: login{"u", "p"}}
	return w, s
}

func machineOf(name, uid string, pid int) operator.Machine {
	m := operator.Machine{Dir: "/s/px-" + name, Name: "px-" + name, PID: pid}
	m.Record.Tags.OwnerUID, m.Record.Tags.Incarnation, m.Record.Tags.SpecHash = uid, 3, "v1:h"
	m.Record.Address, m.Record.Port, m.Record.Labels = "127.1.2.3", 3128, map[string]string{"k": "v"}
	return m
}

func proxyOf(name string, uid types.UID, m operator.Machine) v1alpha1.Proxy {
	return v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, Generation: 2},
		Spec:       v1alpha1.ProxySpec{Labels: map[string]v1alpha1.LabelValue{"k": "v"}},
		Status: v1alpha1.ProxyStatus{
			ObservedGeneration: 2, ProviderID: m.ProviderID(), IP: m.Record.Address, Port: m.Record.Port,
			Instance:   &v1alpha1.Instance{Name: m.Name, Incarnation: 3, SpecHash: "v1:h"},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		},
	}
}

func (s *seen) proxy(name string) *v1alpha1.Proxy {
	for i := range s.proxies {
		if s.proxies[i].Name == name {
			return &s.proxies[i]
		}
	}
	return nil
}

// lose takes a machine out of a list.
func lose(list *[]operator.Machine, name string) {
	var left []operator.Machine
	for _, m := range *list {
		if m.Name != "px-"+name {
			left = append(left, m)
		}
	}
	*list = left
}

// each lets change work on every copy of a machine.
func (s *seen) each(name string, change func(*operator.Machine)) {
	for _, list := range [][]operator.Machine{s.folders, s.running} {
		for i := range list {
			if list[i].Name == "px-"+name {
				change(&list[i])
			}
		}
	}
}

func TestTheWorldAsWantedIsExact(t *testing.T) {
	v := judge(exactly())
	require.True(t, v.exact(), v.first())
	require.Equal(t, 2, v.machines)
	v = judge(nil, &seen{})
	require.True(t, v.exact())
}

func TestWhateverDiffersIsFound(t *testing.T) {
	cases := map[string]struct {
		why           string
		change        func(*wanted, *seen)
		missing, left int
		says          string
	}{
		"a Proxy that is gone": {
			why:    "nobody deleted it, and its machine serves nobody",
			change: func(_ *wanted, s *seen) { *s.proxy("a") = *s.proxy("b"); s.proxies = s.proxies[:1] },
			says:   "a: there is no Proxy with the UID uid-a", missing: 1,
		},
		"a Proxy that was deleted and stays": {
			why: "it holds its machine", change: func(w *wanted, _ *seen) { w.deleted("a") }, says: "Proxy a, UID uid-a", left: 2,
		},
		"a Proxy created again under its name": {
			why: "the new one has no machine, the old one has", says: "a: it has 0 folders", missing: 1, left: 1,
			change: func(w *wanted, s *seen) { w.created("a", "uid-2"); s.proxy("a").UID = "uid-2" },
		},
		"a Proxy that somebody else deletes": {
			why: "the operator deletes none", change: func(_ *wanted, s *seen) { s.proxy("a").DeletionTimestamp = ptr.To(metav1.Now()) },
			says: "a: it is being deleted", missing: 1,
		},
		"a Proxy that isn't Ready": {
			why: "nobody may use it", change: func(_ *wanted, s *seen) { s.proxy("a").Status.Conditions = nil }, says: "isn't Ready", missing: 1,
		},
		"a Proxy that is Ready as it was before": {
			why: "the newest spec counts", change: func(_ *wanted, s *seen) { s.proxy("a").Generation++ }, says: "isn't Ready", missing: 1,
		},
		"a record without process": {
			why: "nothing serves", change: func(_ *wanted, s *seen) { lose(&s.running, "a") }, says: "a: it has 0 processes", missing: 1,
		},
		"a process whose folder is gone": {
			why: "nobody will ever end it", says: "a: it has 0 folders", missing: 1,
			change: func(_ *wanted, s *seen) { lose(&s.folders, "a") },
		},
		"a second machine of one Proxy": {
			why: "somebody pays for it", says: "a: it has 2 folders", missing: 1, left: 1,
			change: func(_ *wanted, s *seen) {
				m := machineOf("twin", "uid-a", 9)
				s.folders, s.running = append(s.folders, m), append(s.running, m)
			},
		},
		"a machine of nobody": {
			why: "its Proxy is long gone", says: "machine px-orphan of owner", left: 1,
			change: func(_ *wanted, s *seen) { s.running = append(s.running, machineOf("orphan", "uid-gone", 9)) },
		},
		"a folder without record": {
			why: "it was never swept", says: "machine px-begun of owner", left: 1,
			change: func(_ *wanted, s *seen) {
				s.folders = append(s.folders, operator.Machine{Dir: "/s/px-begun", Name: "px-begun"})
			},
		},
		"a lock that another process holds": {
			why: "the folder and the process are two machines", change: func(_ *wanted, s *seen) { s.running[0].PID = 99 }, says: "runs as 99", missing: 1,
		},
		"another providerID": {
			why: "a deletion would miss the machine", change: func(_ *wanted, s *seen) { s.proxy("a").Status.ProviderID = "local://px-b" },
			says: "providerID is local://px-b", missing: 1,
		},
		"another address in status": {
			why: "crawlers read it there", change: func(_ *wanted, s *seen) { s.proxy("a").Status.IP = "127.9.9.9" }, says: "status says 127.9.9.9", missing: 1,
		},
		"another incarnation in status": {
			why: "the next one would be named like an old one", change: func(_ *wanted, s *seen) { s.proxy("a").Status.Instance.Incarnation = 2 },
			says: "status.instance is", missing: 1,
		},
		"no machine in status": {
			why: "as above", change: func(_ *wanted, s *seen) { s.proxy("a").Status.Instance = nil }, says: "status.instance is empty", missing: 1,
		},
		"an edit of the port that was lost": {
			why: "the spec is what counts", change: func(_ *wanted, s *seen) { s.proxy("a").Spec.Port = ptr.To[int32](8080) },
			says: "port 3128, the spec 8080", missing: 1,
		},
		"an edit of the labels that was lost": {
			why: "as above", change: func(_ *wanted, s *seen) { s.proxy("a").Spec.Labels = nil }, says: "labels", missing: 1,
		},
		"a rotation of user data that was lost": {
			why: "the Secret is what counts", change: func(w *wanted, _ *seen) { w.wroteUserData("data", "new") }, says: "other user data", missing: 1,
		},
		"a rotation of a login that was lost": {
			why: "an old password would still be good", change: func(w *wanted, _ *seen) { w.wroteLogin("login", login{"u", "new"}) }, says: "another login", missing: 1,
		},
		"a login that nobody asked for": {
			why: "crawlers couldn't use it", change: func(_ *wanted, s *seen) { s.inputs["/s/px-b"] = inputs{login: login{"u", "p"}} },
			says: "b: the machine has another login", missing: 1,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, s := exactly()
			c.change(w, s)
			v := judge(w, s)
			require.Equal(t, c.missing, v.missing(), c.why)
			require.Contains(t, v.first(), c.says, c.why)
			if c.left > 0 || c.missing == 0 {
				require.Equal(t, c.left, v.leftOver(), c.why)
			}
		})
	}
}

func TestAnyPortWillDoWhereTheSystemHasOneAddress(t *testing.T) {
	w, s := exactly()
	s.proxy("a").Spec.Port = ptr.To[int32](8080)
	s.each("a", func(m *operator.Machine) { m.Record.Address = "127.0.0.1" })
	s.proxy("a").Status.IP = "127.0.0.1"
	v := judge(w, s)
	require.True(t, v.exact(), v.first())
}

func TestWithNothingWantedEverythingIsLeftOver(t *testing.T) {
	_, s := exactly()
	v := judge(nil, s)
	require.Equal(t, 4, v.leftOver(), "two Proxies and two machines: %v", v.stray)
	require.Zero(t, v.missing())
}

func TestTwoMachinesOfOneProxyCountAsDoubledOnlyAtOneMoment(t *testing.T) {
	old, young, other := machineOf("old", "uid", 1), machineOf("young", "uid", 2), machineOf("other", "uid-2", 3)
	require.Equal(t, map[string][]string{"uid": {"px-old", "px-young"}},
		doubles([]operator.Machine{old, young, other}, []operator.Machine{young, old, other}))
	require.Empty(t, doubles([]operator.Machine{old, young, other}, []operator.Machine{young, other}), "the old one may have ended before the young one began")
	nobodys := []operator.Machine{machineOf("x", "", 4), machineOf("y", "", 5)}
	require.Empty(t, doubles(nobodys, nobodys), "their records are just going")
}
