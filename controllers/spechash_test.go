// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

func full() material {
	return material{UserData: "#cloud-config", Port: 3128, Protocol: "HTTP", Username: "u", Password: "p", Labels: map[string]string{"b": "2", "a": "1"}}
}

// TestSpecHashNeverChanges pins version v1: a hash that comes out differently rolls every fleet at the next upgrade
// (kubernetes-sigs/karpenter#957).
func TestSpecHashNeverChanges(t *testing.T) {
	require.Equal(t, "v1:"+goldenFull, specHash(full(), "uid-1"))
	require.Equal(t, "v1:"+goldenEmpty, specHash(material{Port: 3128, Protocol: "HTTP"}, "uid-1"))
}

const (
	goldenFull  = "1eade5d025fa020aab101bbaf91c6297"
	goldenEmpty = "660fb0b5e10817231ed32d6427a4440a"
)

func TestSpecHashCoversEveryField(t *testing.T) {
	base := specHash(full(), "uid-1")
	seen := map[string]string{base: "none"}
	for i := range reflect.TypeFor[material]().NumField() {
		m := full()
		name := reflect.TypeFor[material]().Field(i).Name
		switch f := reflect.ValueOf(&m).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Int32:
			f.SetInt(f.Int() + 1)
		case reflect.Map:
			m.Labels["a"] = "x"
		default:
			t.Fatalf("field %s: teach this test its kind", name)
		}
		h := specHash(m, "uid-1")
		require.Empty(t, seen[h], "a change of %s must change the hash", name)
		seen[h] = name
	}
	require.NotEqual(t, base, specHash(full(), "uid-2"), "equal passwords of two Proxies don't show as equal hashes")
}

func TestSpecHashOfAnUnknownVersion(t *testing.T) {
	_, ok := specHashIn("v2", full(), "uid-1")
	require.False(t, ok)
	w := Want{Owner: "uid-1", Material: full()}
	require.False(t, w.drifted(providers.Instance{Tags: providers.Tags{SpecHash: "v2:abc"}}))
	require.False(t, w.drifted(providers.Instance{}))
	require.True(t, w.drifted(providers.Instance{Tags: providers.Tags{SpecHash: "v1:abc"}}))
	require.False(t, w.drifted(providers.Instance{Tags: providers.Tags{SpecHash: w.hash()}}))
}
