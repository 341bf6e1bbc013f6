// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// healthActs are what users do that only probes notice, and to whole fleets.
func healthActs() []act {
	return []act{
		// User data from which no proxy comes up, for so many seconds; then it is mended.
		{"bad-secret", func(w *World, n int) {
			w.rewrite("#cloud-config\n# " + secretMark + " " + deadMark)
			w.ends(seconds(n))
			w.later(seconds(n), func() { w.mend() })
		}, mostBoots, true},
		{"mend", func(w *World, _ int) { w.mend() }, 1, true},
		// All Proxies get a maxAge of so many seconds, for three times as long.
		{"age", func(w *World, n int) {
			w.onAll(func(p *v1alpha1.Proxy) { p.Spec.MaxAge = &metav1.Duration{Duration: seconds(n)} })
			w.ends(3 * seconds(n))
			w.later(3*seconds(n), func() { w.onAll(func(p *v1alpha1.Proxy) { p.Spec.MaxAge = nil }) })
		}, 4, true},
	}
}

// mend writes the user data that was there at first.
func (w *World) mend() {
	w.acted()
	w.ends(0)
	rotate(w, 0)
}

// onAll edits every Proxy.
func (w *World) onAll(change func(*v1alpha1.Proxy)) {
	w.acted()
	for _, p := range w.api.Proxies() {
		if p.DeletionTimestamp.IsZero() {
			q := p.DeepCopy()
			change(q)
			w.must(w.api.Client().Update(context.Background(), q))
		}
	}
}

// mostBoots is how many machines a user data that never works costs within three hours, by a deadline that doubles.
const mostBoots = 6

// oldAt is the least age at which a machine may be replaced for its age.
func oldAt(p *v1alpha1.Proxy) time.Duration {
	if p.Spec.MaxAge == nil {
		return never.Sub(start)
	}
	return p.Spec.MaxAge.Duration * 9 / 10
}
