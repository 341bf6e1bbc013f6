// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// Guard puts the guards around every account, and returns them for their metrics. It is called once, before the first
// pass: an account with two guards has two budgets.
func (r *ProxyReconciler) Guard(workers int) map[string]*providers.Guarded {
	guards := make(map[string]*providers.Guarded, len(r.Providers))
	guarded := make(providers.Registry, len(r.Providers))
	for name, acc := range r.Providers {
		guards[name] = providers.NewGuarded(name, acc.Provider, providers.GuardOptions{
			Limits: acc.Limits, Workers: workers, Clock: r.Clock, Deadline: r.Deadline, Report: r.gateChanged,
		})
		acc.Provider = guards[name]
		guarded[name] = acc
	}
	r.Providers = guarded
	return guards
}

// gateChanged tells log and Events that creates of an account are held back, or go again; then those that wait are
// looked at at once, since each was told to wait for minutes.
func (r *ProxyReconciler) gateChanged(ctx context.Context, c providers.GateChange) {
	kind, reason, note := corev1.EventTypeWarning, v1alpha1.ReasonGateClosed, gateClosedNote(c)
	if c.Open {
		kind, reason, note = corev1.EventTypeNormal, v1alpha1.ReasonGateOpened, gateOpenedNote(c)
	}
	log.FromContext(ctx).Info(note, "account", c.Account, "zone", c.Zone, "namespace", c.Namespace, "gate", c.Gate, "open", c.Open)
	if c.Owner.Name != "" {
		p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: c.Owner.Namespace, Name: c.Owner.Name, UID: types.UID(c.Owner.OwnerUID)}}
		r.Recorder.Eventf(p, nil, kind, reason, "Guard", "%s", note)
	}
	if c.Open && r.Wake != nil {
		r.wakeWaiting(ctx, c.Account)
	}
}

// wakeWaiting wakes the Proxies of an account that have no machine.
func (r *ProxyReconciler) wakeWaiting(ctx context.Context, account string) {
	var list v1alpha1.ProxyList
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Info("Proxies that wait weren't woken; they come by themselves", "account", account, "error", err.Error())
		return
	}
	var waiting []types.NamespacedName
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.Provider == account && !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionProvisioned) {
			waiting = append(waiting, client.ObjectKeyFromObject(p))
		}
	}
	slices.SortFunc(waiting, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, id := range waiting {
		r.Wake(id)
	}
}

func gateClosedNote(c providers.GateChange) string {
	switch c.Gate {
	case providers.GateQuota:
		return fmt.Sprintf("Account %q%s has no quota left; creates there are held back, and one Proxy asks again every 5 minutes.", c.Account, inZone(c))
	case providers.GateCapacity:
		return fmt.Sprintf("Account %q%s has no machine to give; creates there are held back, and one Proxy asks again every 5 minutes.", c.Account, inZone(c))
	default:
		return fmt.Sprintf("Account %q failed many times in a row; all calls are held back, and one is tried now and then.", c.Account)
	}
}

func gateOpenedNote(c providers.GateChange) string {
	if c.Gate == providers.GateCircuit {
		return fmt.Sprintf("Account %q answers again.", c.Account)
	}
	return fmt.Sprintf("Account %q%s takes creates again.", c.Account, inZone(c))
}

func inZone(c providers.GateChange) string {
	switch {
	case c.Namespace != "":
		return ", namespace " + c.Namespace
	case c.Zone != "":
		return ", zone " + c.Zone
	default:
		return ""
	}
}
