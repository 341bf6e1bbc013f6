// SPDX-License-Identifier: Apache-2.0

package providers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

func TestClassOfAnError(t *testing.T) {
	quota := &providers.Error{Class: providers.QuotaExceeded, Op: "create instance"}
	cases := map[string]struct {
		why            string
		err            error
		read, mutation providers.ErrorClass
	}{
		"no error has no class":                    {},
		"a class counts on both sides":             {err: quota, read: providers.QuotaExceeded, mutation: providers.QuotaExceeded},
		"a class is found through wrapping":        {err: fmt.Errorf("pass: %w", quota), read: providers.QuotaExceeded, mutation: providers.QuotaExceeded},
		"a class is found among joined errors":     {err: errors.Join(errors.New("x"), quota), read: providers.QuotaExceeded, mutation: providers.QuotaExceeded},
		"an error of another type hides a success": {err: context.DeadlineExceeded, read: providers.Transient, mutation: providers.Ambiguous},
		"an Error without a class hides one too":   {err: &providers.Error{Op: "x"}, read: providers.Transient, mutation: providers.Ambiguous},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.read, providers.ReadClass(c.err))
			require.Equal(t, c.mutation, providers.MutationClass(c.err))
			require.Equal(t, c.read == providers.QuotaExceeded, providers.Is(c.err, providers.QuotaExceeded))
			require.False(t, providers.Is(c.err, providers.NotFound))
		})
	}
}

func TestClassesAreAllAndDifferent(t *testing.T) {
	seen := map[providers.ErrorClass]bool{}
	for _, c := range providers.Classes() {
		require.NotEmpty(t, c)
		require.False(t, seen[c], c)
		seen[c] = true
	}
	require.Equal(t, map[providers.ErrorClass]bool{
		providers.Transient: true, providers.Ambiguous: true, providers.Throttled: true, providers.QuotaExceeded: true,
		providers.Capacity: true, providers.Denied: true, providers.Permanent: true, providers.NotFound: true,
	}, seen)
}

func TestErrorsReadAsOneLine(t *testing.T) {
	cause := errors.New("HTTP 403")
	cases := map[string]struct {
		err  error
		want string
	}{
		"all of it": {
			err: &providers.Error{
				Class: providers.Permanent, Op: "create instance", Code: "BadZone", Field: "spec.location.zones", Want: "write a zone", Err: cause,
			},
			want: "create instance: Permanent (BadZone): spec.location.zones: write a zone: HTTP 403",
		},
		"the least": {err: &providers.Error{Class: providers.Denied, Op: "get instance"}, want: "get instance: Denied"},
		"an unsupported field": {
			err:  providers.Unsupported("spec.protocol", "write HTTP"),
			want: "check request: Permanent (Unsupported): spec.protocol: write HTTP",
		},
		"an instance that is gone": {
			err:  providers.Gone("get instance", providers.Ref{Account: "a", Path: "b"}),
			want: "get instance: NotFound: no instance at a://b",
		},
		"a name that is taken": {
			err:  providers.Conflict("create instance", "px-1"),
			want: "create instance: Permanent (NameConflict): name px-1 is held by an instance that does not carry this Proxy's tags",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.EqualError(t, c.err, c.want) })
	}
	require.ErrorIs(t, &providers.Error{Err: cause}, cause)
	require.True(t, providers.Is(providers.Gone("x", providers.Ref{}), providers.NotFound))
	require.True(t, providers.Is(providers.Conflict("x", "y"), providers.Permanent))
}
