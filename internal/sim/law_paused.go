// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/api"
)

func lawPaused() law {
	return law{"paused", "while a Proxy is paused, none of its machines is made or deleted", plain(func(w *World, c *call) string {
		if c == nil || !c.op.mutates() {
			return ""
		}
		p := w.proxy(c.key)
		if p != nil && p.Annotations[v1alpha1.AnnotationPaused] == "true" && c.by.pass.start >= c.user && c.by.view.Behind(api.Proxies) == 0 {
			return string(c.op) + " for a Proxy that is paused"
		}
		return ""
	})}
}
