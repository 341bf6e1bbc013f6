// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// The keys of the ConfigMap of a stopped sweep. A person writes noteConfirm, the collector the others.
const (
	noteSweep        = "sweep"        // names the set of orphans
	noteFound        = "found"        // how many they are
	noteTotal        = "total"        // of how many
	noteInstances    = "instances"    // who they are, as far as they fit
	noteSet          = "set"          // a short hash of each
	noteInstructions = "instructions" // for the person
	noteConfirm      = "confirm"      // equal to sweep: delete them
)

// noteLines bounds the list of instances: it is for people.
const noteLines = 100

// noteName is the name of the ConfigMap. Two operators in one namespace have different ones.
func (c *Collector) noteName(account string) string {
	return "proxy-operator-orphans-" + account + "-" + c.Installation
}

// stop deletes nothing: it leaves the list of orphans where a person can confirm it, and tells of it once.
func (c *Collector) stop(ctx context.Context, account string, t tally, orphans []finding, m *sightings) error {
	id := setID(setOf(orphans))
	if c.Namespace != "" {
		if err := c.writeNote(ctx, account, c.note(account, t, orphans)); err != nil {
			return err
		}
	}
	if m.stopped == id {
		return nil
	}
	m.stopped = id
	way := "confirm in ConfigMap " + c.Namespace + "/" + c.noteName(account)
	if c.Namespace == "" {
		way = "nobody can confirm: set --operator-namespace"
	}
	c.Log.Info("too many instances have no Proxy; none is deleted", "account", account, "sweep", id, "found", t.Orphans, "total", t.Total, "next", way)
	if c.Namespace != "" {
		about := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.noteName(account)}}
		c.Recorder.Eventf(about, nil, corev1.EventTypeWarning, v1alpha1.ReasonOrphanSweepStopped, "Collect",
			"%d of %d instances in account %s have no Proxy. None is deleted until somebody confirms sweep %s here.", t.Orphans, t.Total, account, id)
	}
	return nil
}

// note is the ConfigMap of a stopped sweep.
func (c *Collector) note(account string, t tally, orphans []finding) *corev1.ConfigMap {
	set := setOf(orphans)
	id, name := setID(set), c.noteName(account)
	var lines []string
	for _, o := range orphans[:min(len(orphans), noteLines)] {
		lines = append(lines, fmt.Sprintf("%s %s/%s %s %s", o.Ref, o.Tags.Namespace, o.Tags.Name, o.Tags.OwnerUID, o.CreatedAt.UTC().Format(time.RFC3339)))
	}
	if more := len(orphans) - noteLines; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: name,
			Labels: map[string]string{"app.kubernetes.io/managed-by": providers.ManagedBy, "app.kubernetes.io/component": "orphan-collector"},
		},
		Data: map[string]string{
			noteSweep: id, noteFound: strconv.Itoa(t.Orphans), noteTotal: strconv.Itoa(t.Total),
			noteInstances: strings.Join(lines, "\n"), noteSet: strings.Join(set, "\n"),
			noteInstructions: fmt.Sprintf("%d of %d instances in account %s have no Proxy. So many at once are more likely lost Proxies than lost instances, "+
				"so nothing was deleted.\nCheck the list: if their Proxies should exist, find out where they went; their instances serve on.\n"+
				"To have the listed instances deleted:\n"+
				"  kubectl -n %s patch configmap %s --type=merge -p '{\"data\":{\"confirm\":\"%s\"}}'\n"+
				"Should there be more of them by then, this is written anew and waits again.", t.Orphans, t.Total, account, c.Namespace, name, id),
		},
	}
}

// writeNote writes what a stopped sweep found. What is there already for the same set stays as it is. A confirmation of
// another set is dropped: it was for other instances.
func (c *Collector) writeNote(ctx context.Context, account string, n *corev1.ConfigMap) error {
	old, err := c.readNote(ctx, account)
	if err != nil {
		return err
	}
	if old != nil && old.Data[noteSweep] == n.Data[noteSweep] && old.Data[noteSet] == n.Data[noteSet] {
		return nil
	}
	ctx, cancel := c.within(ctx, callTimeout)
	defer cancel()
	if old == nil {
		err = c.Store.Create(ctx, n)
	} else {
		n.ResourceVersion = old.ResourceVersion
		err = c.Store.Update(ctx, n)
	}
	if err != nil {
		return c.apiError(fmt.Errorf("write ConfigMap %s/%s: %w", n.Namespace, n.Name, err))
	}
	return nil
}

// readNote returns the ConfigMap of the account's stopped sweep, nil if there is none.
func (c *Collector) readNote(ctx context.Context, account string) (*corev1.ConfigMap, error) {
	ctx, cancel := c.within(ctx, callTimeout)
	defer cancel()
	n := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: c.Namespace, Name: c.noteName(account)}
	if err := c.Live.Get(ctx, key, n); absent(err) {
		n = nil
	} else if err != nil {
		return nil, c.apiError(fmt.Errorf("get ConfigMap %s: %w", key, err))
	}
	return n, nil
}

// confirmed reports whether a person has agreed to the deletion of all these orphans: of exactly this set, or of a larger
// one of which some are gone by now.
func (c *Collector) confirmed(ctx context.Context, account string, orphans []finding) (bool, error) {
	if c.Namespace == "" {
		return false, nil
	}
	n, err := c.readNote(ctx, account)
	if err != nil || n == nil {
		return false, err
	}
	agreed := strings.Fields(n.Data[noteSet])
	if strings.TrimSpace(n.Data[noteConfirm]) != setID(agreed) {
		return false, nil
	}
	for _, o := range setOf(orphans) {
		if _, ok := slices.BinarySearch(agreed, o); !ok {
			return false, nil
		}
	}
	return true, nil
}

// nothingToConfirm removes the ConfigMap of a stopped sweep, if there is one.
func (c *Collector) nothingToConfirm(ctx context.Context, account string, m *sightings) error {
	m.stopped = ""
	if c.Namespace == "" {
		return nil
	}
	n, err := c.readNote(ctx, account)
	if err != nil || n == nil {
		return err
	}
	ctx, cancel := c.within(ctx, callTimeout)
	defer cancel()
	err = c.Store.Delete(ctx, n, client.Preconditions{UID: &n.UID, ResourceVersion: &n.ResourceVersion})
	if err != nil && !absent(err) {
		return c.apiError(fmt.Errorf("delete ConfigMap %s/%s: %w", n.Namespace, n.Name, err))
	}
	return nil
}

// setOf names each orphan by a short hash of its Ref, in order, so that many thousands fit in a ConfigMap.
func setOf(orphans []finding) []string {
	set := make([]string, 0, len(orphans))
	for _, o := range orphans {
		sum := sha256.Sum256([]byte(o.Ref.String()))
		set = append(set, hex.EncodeToString(sum[:8]))
	}
	slices.Sort(set)
	return set
}

// setID names a set: the same orphans have the same id in every process.
func setID(set []string) string {
	sum := sha256.Sum256([]byte(strings.Join(set, "\n")))
	return hex.EncodeToString(sum[:6])
}
