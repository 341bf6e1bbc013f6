// SPDX-License-Identifier: Apache-2.0

package providers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

func TestTraits(t *testing.T) {
	cases := map[string]struct {
		traits     providers.Traits
		idempotent bool
		deadline   time.Duration
	}{
		"a cloud that promises nothing may answer within a minute": {deadline: time.Minute},
		"unique names make a create repeatable":                    {traits: providers.Traits{UniqueNames: true}, idempotent: true, deadline: time.Minute},
		"tokens make a create repeatable":                          {traits: providers.Traits{CreateToken: true}, idempotent: true, deadline: time.Minute},
		"a shorter deadline counts":                                {traits: providers.Traits{CallDeadline: time.Second}, deadline: time.Second},
		"a longer deadline counts":                                 {traits: providers.Traits{CallDeadline: time.Hour}, deadline: time.Hour},
		"a deadline below zero is none":                            {traits: providers.Traits{CallDeadline: -1}, deadline: time.Minute},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.idempotent, c.traits.Idempotent())
			require.Equal(t, c.deadline, c.traits.Deadline())
		})
	}
}

func TestAlive(t *testing.T) {
	alive := map[providers.InstanceState]bool{
		providers.StateProvisioning: true, providers.StateRunning: true, providers.StateStopped: false,
		providers.StateTerminated: false, providers.StateDeleting: false, "": false,
	}
	for state, want := range alive {
		require.Equal(t, want, state.Alive(), state)
	}
}

func fullTags() providers.Tags {
	return providers.Tags{
		ManagedBy: providers.ManagedBy, Installation: "here", OwnerUID: uid, Namespace: "crawl", Name: "exit-1",
		Incarnation: 1, SpecHash: "v1:abc",
	}
}

func TestTagsAreCompleteOnlyWithEveryField(t *testing.T) {
	require.True(t, fullTags().Complete())
	missing := map[string]func(*providers.Tags){
		"managed-by":        func(t *providers.Tags) { t.ManagedBy = "" },
		"another manager":   func(t *providers.Tags) { t.ManagedBy = "karpenter" },
		"installation":      func(t *providers.Tags) { t.Installation = "" },
		"owner":             func(t *providers.Tags) { t.OwnerUID = "" },
		"namespace":         func(t *providers.Tags) { t.Namespace = "" },
		"name":              func(t *providers.Tags) { t.Name = "" },
		"incarnation":       func(t *providers.Tags) { t.Incarnation = 0 },
		"incarnation below": func(t *providers.Tags) { t.Incarnation = -1 },
		"spec hash":         func(t *providers.Tags) { t.SpecHash = "" },
	}
	for name, edit := range missing {
		tags := fullTags()
		edit(&tags)
		require.False(t, tags.Complete(), name)
	}
}

func TestRequestsThatOnlyAMistakeInTheOperatorMakesAreRefused(t *testing.T) {
	key := providers.Key{InstallationID: "here", ProxyUID: uid, Incarnation: 1, Account: "pods"}
	request := providers.CreateRequest{Key: key, Name: key.Name(), Tags: fullTags()}
	require.NoError(t, request.Consistent("create instance", "pods"))
	for wrong, edit := range map[string]func(*providers.CreateRequest){
		"the key names another account: other": func(r *providers.CreateRequest) { r.Key.Account = "other" },
		"the name isn't the key's":             func(r *providers.CreateRequest) { r.Name = "../../etc" },
		"the tags aren't complete":             func(r *providers.CreateRequest) { r.Tags.SpecHash = "" },
	} {
		edited := request
		edit(&edited)
		require.EqualError(t, edited.Consistent("create instance", "pods"), "create instance: Permanent: "+wrong)
	}
}

func TestSelector(t *testing.T) {
	foreign := fullTags()
	foreign.ManagedBy = "karpenter"
	untagged := fullTags()
	untagged.Installation = ""
	cases := map[string]struct {
		sel  providers.Selector
		tags providers.Tags
		want bool
	}{
		"the installation picks all of its own":     {sel: providers.Selector{Installation: "here"}, tags: fullTags(), want: true},
		"the owner narrows it":                      {sel: providers.Selector{Installation: "here", OwnerUID: uid}, tags: fullTags(), want: true},
		"another owner's is not picked":             {sel: providers.Selector{Installation: "here", OwnerUID: "x"}, tags: fullTags()},
		"another installation's is not picked":      {sel: providers.Selector{Installation: "there", OwnerUID: uid}, tags: fullTags()},
		"a part of an id is another id":             {sel: providers.Selector{Installation: "he"}, tags: fullTags()},
		"no installation picks nothing":             {sel: providers.Selector{OwnerUID: uid}, tags: fullTags()},
		"no installation doesn't pick the untagged": {sel: providers.Selector{}, tags: untagged},
		"what isn't ours is never picked":           {sel: providers.Selector{Installation: "here", OwnerUID: uid}, tags: foreign},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.sel.Matches(c.tags)) })
	}
}

func TestRegistryNamesAreInOrder(t *testing.T) {
	require.Equal(t, "none", providers.Registry(nil).Names())
	require.Equal(t, "none", providers.Registry{}.Names())
	require.Equal(t, "local", providers.Registry{"local": {}}.Names())
	r := providers.Registry{"local": {}, "gcp-eu": {}, "aws": {}, "kubernetes": {}, "gcp-asia": {}}
	for range 50 { // a map has another order each time
		require.Equal(t, "aws, gcp-asia, gcp-eu, kubernetes, local", r.Names())
	}
}

func TestAccountAllows(t *testing.T) {
	require.True(t, providers.Account{}.Allows("anything"), "no list: all")
	a := providers.Account{AllowedNamespaces: []string{"crawl", "scrape"}}
	require.True(t, a.Allows("scrape"))
	require.False(t, a.Allows("scrap"))
	require.False(t, a.Allows(""))
}
