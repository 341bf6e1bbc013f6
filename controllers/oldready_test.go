// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// TestWhatIsWrittenUnderALock: a status patch that tells nothing new of Ready must not land on a newer object than the
// one that was read.
func TestWhatIsWrittenUnderALock(t *testing.T) {
	with := func(s metav1.ConditionStatus, reason string) *v1alpha1.Proxy {
		p := &v1alpha1.Proxy{}
		if s != "" {
			set(p, v1alpha1.ConditionReady, cond{s, reason, "why"})
		}
		return p
	}
	cases := map[string]struct {
		why      string
		base, to *v1alpha1.Proxy
		locked   bool
	}{
		"Ready as it was read": {"it would bring an old one back", with("True", "Created"), with("True", "Created"), true},
		"Ready isn't known":    {"it would take a newer one away", with("", ""), with("Unknown", "Provisioning"), true},
		"no request has got through yet": {
			"a new process says that of a machine whose Ready its view doesn't show: simulation, pod,objects=6,seed=1584969120,probe,recreate@145,conflict@85,travel@107:3",
			with("False", v1alpha1.ReasonProvisioning), with("False", v1alpha1.ReasonProbing), true},
		"Ready comes": {"a look told so", with("False", v1alpha1.ReasonProbing), with("True", "Created"), false},
		"Ready ends":  {"requests don't get through", with("True", "Created"), with("False", v1alpha1.ReasonTimeout), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.locked, sameReady(c.base, c.to), c.why)
		})
	}
}
