// SPDX-License-Identifier: Apache-2.0

package providers_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

const uid = "5d1c3a52-0000-4000-8000-000000000001"

// TestNamesForEver: a machine made by any version of the operator is found by its name in every later one. A name that
// changes here is a fleet that is lost; these were computed outside of Go.
func TestNamesForEver(t *testing.T) {
	cases := map[string]struct {
		key  providers.Key
		want string
	}{
		"a machine in a zone": {
			key: providers.Key{
				InstallationID: "abcdefghijklmnop", ProxyUID: uid, Incarnation: 1, Account: "gcp-eu", Zone: "europe-west1-b",
			},
			want: "px-tzwgepco4trov2cxp4d3dsvj",
		},
		"the next machine of the same Proxy": {
			key: providers.Key{
				InstallationID: "abcdefghijklmnop", ProxyUID: uid, Incarnation: 2, Account: "gcp-eu", Zone: "europe-west1-b",
			},
			want: "px-4pm57zbke2vypl4hucnue3ed",
		},
		"a machine without a zone": {
			key:  providers.Key{InstallationID: "abcdefghijklmnop", ProxyUID: uid, Incarnation: 1, Account: "local"},
			want: "px-xm3ozbnzp3r2vftkxxw6oyvh",
		},
		"the zero key": {want: "px-yyng4ptdykzstqzfkfrwo3ly"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.key.Name())
			require.Equal(t, c.want, c.key.Name(), "equal keys give equal names")
		})
	}
	require.Equal(t, "7e6e3gtifirzxctj", providers.InstallationID("0f5a3f0e-8a1e-4a53-9d3c-7a6d3a2b1c00", ""))
	require.Equal(t, "33xvsb2l5ftgdheo", providers.InstallationID("0f5a3f0e-8a1e-4a53-9d3c-7a6d3a2b1c00", "blue"))
}

func TestNamesNeverCollide(t *testing.T) {
	form := regexp.MustCompile(`^px-[a-z2-7]{24}$`) // an RFC 1035 label, of one length
	seen := make(map[string]providers.Key, 120_000)
	add := func(k providers.Key) {
		name := k.Name()
		if other, dup := seen[name]; dup {
			require.Equal(t, other, k, "one name for two keys: %s", name)
		}
		seen[name] = k
	}
	for n := range 30_000 {
		k := providers.Key{
			InstallationID: "abcdefghijklmnop", ProxyUID: fmt.Sprintf("5d1c3a52-0000-4000-8000-%012d", n), Incarnation: 1,
			Account: "gcp-eu", Zone: "europe-west1-b",
		}
		add(k)
		k.Incarnation = 11
		add(k)
		k.Zone = ""
		add(k)
		k.InstallationID = "ponmlkjihgfedcba"
		add(k)
	}
	require.Len(t, seen, 120_000)
	for name := range seen {
		if !form.MatchString(name) {
			require.Fail(t, "not a name", name)
		}
	}
}

// TestEveryPartOfAKeyIsInItsName: parts that run into each other would give two machines one name.
func TestEveryPartOfAKeyIsInItsName(t *testing.T) {
	keys := map[string]providers.Key{
		"as it was":                {InstallationID: "a", ProxyUID: "b", Incarnation: 1, Account: "c", Zone: "d"},
		"another installation":     {InstallationID: "x", ProxyUID: "b", Incarnation: 1, Account: "c", Zone: "d"},
		"another owner":            {InstallationID: "a", ProxyUID: "x", Incarnation: 1, Account: "c", Zone: "d"},
		"another incarnation":      {InstallationID: "a", ProxyUID: "b", Incarnation: 2, Account: "c", Zone: "d"},
		"another account":          {InstallationID: "a", ProxyUID: "b", Incarnation: 1, Account: "x", Zone: "d"},
		"another zone":             {InstallationID: "a", ProxyUID: "b", Incarnation: 1, Account: "c", Zone: "x"},
		"parts moved to the left":  {InstallationID: "ab", ProxyUID: "", Incarnation: 1, Account: "cd", Zone: ""},
		"parts moved to the right": {InstallationID: "", ProxyUID: "ab", Incarnation: 1, Account: "", Zone: "cd"},
	}
	names := map[string]string{}
	for why, k := range keys {
		require.Empty(t, names[k.Name()], why)
		names[k.Name()] = why
	}
	require.NotEqual(t, providers.InstallationID("ab", "c"), providers.InstallationID("a", "bc"))
}

func TestRefsSurviveBeingWrittenDown(t *testing.T) {
	for _, r := range []providers.Ref{
		{},
		{Account: "local", Path: "px-abc"},
		{Account: "kubernetes", Path: "crawl/px-abc"},
		{Account: "gcp-eu", Path: "project-1/europe-west1-b/px-abc"},
		{Account: "odd", Path: "a://b"},
		{Account: "odd", Path: "/leading/and/trailing/"},
		{Account: strings.Repeat("a", 63), Path: strings.Repeat("p", 500)},
	} {
		got, err := providers.ParseRef(r.String())
		require.NoError(t, err)
		require.Equal(t, r, got)
		require.Equal(t, r == providers.Ref{}, got.IsZero())
	}
	require.Equal(t, "gcp-eu://p/z/n", providers.Ref{Account: "gcp-eu", Path: "p/z/n"}.String())
}

func TestWhatIsNoRef(t *testing.T) {
	for _, s := range []string{
		"x", "://", "a://", "://b", "a:/b", "a//b", "a b://c", "a://b c", "a://b\n", "a/b://c", "a?b://c", " ", "a%b://c",
	} {
		r, err := providers.ParseRef(s)
		require.Error(t, err, "%q", s)
		require.Contains(t, err.Error(), fmt.Sprintf("%q", s))
		require.True(t, r.IsZero(), "%q", s)
	}
}
