// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// report tells of every orphan once.
func (c *Collector) report(found []finding, m *sightings) {
	for _, f := range found {
		s := m.byRef[f.Ref]
		if f.state != orphanProven || s.reported {
			continue
		}
		s.reported = true
		c.Log.Info("an instance has no Proxy", fullRecord(f.Instance)...)
		c.Recorder.Eventf(formerOwner(f.Tags), nil, corev1.EventTypeWarning, v1alpha1.ReasonOrphanReported, "Collect",
			"Instance %s was made for this Proxy, which is gone. The account's mode is Report: delete it yourself, or set mode Delete.", f.Ref)
	}
}

// deleteAll deletes the orphans one after the other and reports whether every one was told to go, or is gone. It ends at
// the first delete that isn't accepted. Such a one comes last in the next sweep, so that it doesn't hold up the others.
func (c *Collector) deleteAll(ctx context.Context, acc providers.Account, found []finding, m *sightings) (bool, error) {
	var orphans []finding
	for _, f := range found {
		if f.state == orphanProven {
			orphans = append(orphans, f)
		}
	}
	slices.SortStableFunc(orphans, func(a, b finding) int {
		return cmp.Or(toldBefore(m.byRef[a.Ref])-toldBefore(m.byRef[b.Ref]), cmp.Compare(m.byRef[a.Ref].failures, m.byRef[b.Ref].failures))
	})
	for _, o := range orphans {
		back, err := c.owned(ctx, nil, o.Tags) // once more: the sweep may have taken minutes
		if err != nil {
			return false, err
		}
		if back {
			delete(m.byRef, o.Ref)
			continue
		}
		if !c.deleteOne(ctx, acc, o.Instance, m) {
			return false, nil
		}
	}
	return true, nil
}

// toldBefore puts those that were never told to go before those that don't go: with few calls a minute these would have them all.
func toldBefore(s *sighting) int {
	if s.told {
		return 1
	}
	return 0
}

// deleteOne reports whether the delete was accepted or found nothing. The record is logged before the call: a process
// that dies in between has told of what it did.
func (c *Collector) deleteOne(ctx context.Context, acc providers.Account, i providers.Instance, m *sightings) bool {
	s := m.byRef[i.Ref]
	if !s.told {
		c.Log.Info("deleting an instance that has no Proxy", fullRecord(i)...)
	}
	ctx, cancel := c.within(ctx, callTimeout)
	defer cancel()
	err := acc.Provider.Delete(ctx, i.Ref)
	switch class := providers.MutationClass(err); class {
	case "":
		if !s.told {
			s.told = true
			c.Metrics.deleted.WithLabelValues(acc.Name).Inc()
			c.Recorder.Eventf(formerOwner(i.Tags), nil, corev1.EventTypeNormal, v1alpha1.ReasonOrphanDeleted, "Collect",
				"Deleted instance %s, which was made for this Proxy. The Proxy (UID %s) is gone.", i.Ref, i.Tags.OwnerUID)
		}
		return true
	case providers.NotFound:
		delete(m.byRef, i.Ref)
		return true
	default:
		if !providers.IsHeld(err) { // a guard's refusal says nothing about the machine
			s.failures++
		}
		c.Log.Info("the delete was not accepted; the next sweep repeats it", "instance", i.Ref.String(), "class", class, "error", err.Error())
		return false
	}
}

// fullRecord is all that is known of an instance, for the log: when it is deleted nobody can look it up any more.
func fullRecord(i providers.Instance) []any {
	return []any{
		"instance", i.Ref.String(), "name", i.Name, "zone", i.Zone, "state", i.State, "ip", i.IP, "port", i.Port, "created", i.CreatedAt,
		"managedBy", i.Tags.ManagedBy, "installation", i.Tags.Installation, "owner", i.Tags.Namespace + "/" + i.Tags.Name,
		"ownerUID", i.Tags.OwnerUID, "incarnation", i.Tags.Incarnation, "specHash", i.Tags.SpecHash,
	}
}

// formerOwner is the Proxy that the Events are about, where people who made it look for them.
func formerOwner(t providers.Tags) *v1alpha1.Proxy {
	return &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name, UID: types.UID(t.OwnerUID)}}
}
