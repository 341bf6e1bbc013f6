// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// leaseOf is read with these holders, one after the other; each read finds it renewed if it is to be.
func leaseOf(t *testing.T, renewing bool, holders ...string) client.Client {
	t.Helper()
	at := time.Unix(0, 0)
	return builder(t).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			if renewing {
				at = at.Add(time.Second)
			}
			o.(*coordinationv1.Lease).Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holders[0]), RenewTime: ptr.To(metav1.NewMicroTime(at))}
			if len(holders) > 1 {
				holders = holders[1:]
			}
			return nil
		},
	}).Build()
}

func TestCheck(t *testing.T) {
	lease := types.NamespacedName{Namespace: "operators", Name: "lease"}
	answering := func(codes ...int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(codes[0])
			if len(codes) > 1 {
				codes = codes[1:]
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	cases := map[string]struct {
		why   string
		check Check
		want  string // in the error; none if empty
	}{
		"a leader that renews its lease works": {
			"it couldn't without the API server", Check{Client: leaseOf(t, true, "pod-1"), Lease: lease}, ""},
		"a leader that is gone renews nothing": {
			"its lease says nothing for a while", Check{Client: leaseOf(t, false, "pod-1"), Lease: lease}, "after 1m0s: the leader doesn't renew its lease"},
		"nobody leads": {
			"the pods don't start", Check{Client: leaseOf(t, true, ""), Lease: lease}, "nobody holds the lease operators/lease"},
		"somebody leads after a while": {
			"an image is pulled", Check{Client: leaseOf(t, true, "", "", "pod-1"), Lease: lease}, ""},
		"no lease": {
			"the operator has never run", Check{Client: builder(t).Build(), Lease: lease}, `leases.coordination.k8s.io "lease" not found`},
		"a judge that answers":               {"that is all it does", Check{URLs: []string{answering(200)}}, ""},
		"a judge that answers after a while": {"its pod starts", Check{URLs: []string{answering(503, 503, 200)}}, ""},
		"a judge that fails":                 {"proxies can't be proved", Check{URLs: []string{answering(200), answering(503)}}, "503 Service Unavailable"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.check.Clock, c.check.Timeout = &eager{clocktesting.NewFakeClock(time.Unix(0, 0))}, time.Minute
			err := c.check.Run(t.Context())
			if c.want == "" {
				require.NoError(t, err, c.why)
				return
			}
			require.ErrorContains(t, err, c.want, c.why)
		})
	}
}

func TestACheckThatIsToldToEndDoes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := Check{Client: leaseOf(t, false, "pod-1"), Lease: types.NamespacedName{Name: "lease"}, Clock: clocktesting.NewFakeClock(time.Unix(0, 0)), Timeout: time.Minute}
	require.ErrorIs(t, c.Run(ctx), context.Canceled)
}
