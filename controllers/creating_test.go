// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

// asking answers creates by what it is told to do.
type asking struct {
	providers.Provider
	do func()
}

func (a asking) Create(context.Context, providers.CreateRequest) (providers.Instance, error) {
	a.do()
	return providers.Instance{}, nil
}

func TestCreatingIsKnownForAsLongAsTheCreateRuns(t *testing.T) {
	r := &ProxyReconciler{}
	req := providers.CreateRequest{Tags: providers.Tags{OwnerUID: "a"}}
	require.False(t, r.Creating("a"))
	_, err := r.underway.create(t.Context(), asking{do: func() {
		require.True(t, r.Creating("a"))
		require.False(t, r.Creating("b"))
	}}, req)
	require.NoError(t, err)
	require.False(t, r.Creating("a"))
}

func TestCreatingEndsWithAPanic(t *testing.T) {
	r := &ProxyReconciler{}
	require.Panics(t, func() {
		_, _ = r.underway.create(t.Context(), asking{do: func() { panic("the provider is broken") }}, providers.CreateRequest{Tags: providers.Tags{OwnerUID: "a"}})
	})
	require.False(t, r.Creating("a"))
}
