// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

func TestIntentIsReadAsItWasWritten(t *testing.T) {
	p := &v1alpha1.Proxy{}
	p.UID = testUID
	in := Intent{UID: testUID, Incarnation: 3, Hash: "v1:x", Account: "cloud", Zone: "b", At: noon.Add(time.Nanosecond)}
	require.NoError(t, in.write(p))
	require.Equal(t, &in, readIntent(p))
}

func TestAnIntentThatIsNotTheProxysOwnIsNone(t *testing.T) {
	for name, raw := range map[string]string{
		"absent":         "",
		"no JSON":        "{nonsense",
		"of another UID": `{"uid":"other","incarnation":1,"hash":"v1:x","account":"cloud","at":"2026-01-02T12:00:00Z"}`,
		"incarnation 0":  `{"uid":"uid-1","incarnation":0,"hash":"v1:x","account":"cloud","at":"2026-01-02T12:00:00Z"}`,
		"no account":     `{"uid":"uid-1","incarnation":1,"hash":"v1:x","at":"2026-01-02T12:00:00Z"}`,
		"no time":        `{"uid":"uid-1","incarnation":1,"hash":"v1:x","account":"cloud"}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1alpha1.Proxy{}
			p.UID = testUID
			if raw != "" {
				setAnnotation(p, v1alpha1.AnnotationIntent, raw)
			}
			require.Nil(t, readIntent(p))
		})
	}
}

func TestEachPartOfTheKeyMakesAnotherName(t *testing.T) {
	base := Intent{UID: testUID, Incarnation: 1, Account: "cloud", Zone: "a"}
	names := map[string]bool{base.key("inst").Name(): true}
	for _, in := range []Intent{
		{UID: "other", Incarnation: 1, Account: "cloud", Zone: "a"},
		{UID: testUID, Incarnation: 2, Account: "cloud", Zone: "a"},
		{UID: testUID, Incarnation: 1, Account: "other", Zone: "a"},
		{UID: testUID, Incarnation: 1, Account: "cloud", Zone: "b"},
	} {
		require.False(t, names[in.key("inst").Name()])
		names[in.key("inst").Name()] = true
	}
	require.False(t, names[base.key("another installation").Name()])
}

func TestAnOldReadOfAMachineThatRanIsNotBelievedWhileReadsLag(t *testing.T) {
	var c Calls
	running := providers.Instance{Ref: ref("m"), State: providers.StateRunning, IP: "192.0.2.1"}
	booting := providers.Instance{Ref: ref("m"), State: providers.StateProvisioning}
	require.Equal(t, booting, c.remember(booting, time.Minute, noon), "never seen running")
	require.Equal(t, running, c.remember(running, time.Minute, noon))
	require.Equal(t, running, c.remember(booting, time.Minute, noon.Add(time.Minute)))
	require.Equal(t, booting, c.remember(booting, time.Minute, noon.Add(61*time.Second)), "by now it must be true")

	moved := running
	moved.IP = "192.0.2.99"
	later := noon.Add(time.Hour)
	require.Equal(t, moved, c.remember(moved, time.Minute, later))
	require.Equal(t, moved, c.remember(running, time.Minute, later.Add(time.Second)), "a list with the address of before is an old one")
	require.Equal(t, moved, c.remember(booting, time.Minute, later.Add(time.Second)))
	require.Equal(t, running, c.remember(running, time.Minute, later.Add(61*time.Second)), "by now it must be true")
}

func TestLooksFromBeforeACreateProveNothing(t *testing.T) {
	var c Calls
	c.looked(true, noon)
	c.send(true, noon)
	c.looked(true, noon.Add(time.Minute))
	require.Equal(t, noon.Add(time.Minute), c.EmptySince, "simulation: gce,wipe@44,delete@56,api-down@2:60")
}
