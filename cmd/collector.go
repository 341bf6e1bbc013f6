// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/proxy-operator/proxy-operator/controllers"
)

// addCollector adds the orphan collector, which uses the reconciler's guarded accounts: one budget for both.
func (o *managerOptions) addCollector(mgr ctrl.Manager, r *controllers.ProxyReconciler) error {
	own, err := controllers.NewOrphanMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if o.ownNamespace() == "" && len(r.Providers) > 0 {
		mgr.GetLogger().Info("not in a pod: without --operator-namespace, nobody can confirm that many orphans at once may be deleted")
	}
	return mgr.Add(&controllers.Sweeper{
		Clock: clock.RealClock{},
		Collector: &controllers.Collector{
			Providers: r.Providers, Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Store: mgr.GetClient(),
			Namespace: o.ownNamespace(), Installation: r.Installation, Watched: o.watchNamespaces,
			Recorder: r.Recorder, Clock: clock.RealClock{}, Log: mgr.GetLogger().WithName("orphans"), Metrics: own, Busy: r.Creating,
		},
	})
}

// ownNamespace is where the operator keeps what isn't a Proxy's; empty: nowhere.
func (o *managerOptions) ownNamespace() string {
	if o.operatorNamespace != "" {
		return o.operatorNamespace
	}
	ns, err := os.ReadFile(podNamespaceFile)
	if err != nil {
		return "" // not in a pod
	}
	return strings.TrimSpace(string(ns))
}
