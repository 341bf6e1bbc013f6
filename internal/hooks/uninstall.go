// SPDX-License-Identifier: Apache-2.0

// Package hooks is what a package manager runs beside the operator: before it removes it, and to test that it works.
package hooks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

const (
	lookEvery = 2 * time.Second // a machine takes longer to go
	pageSize  = 500
	maxNamed  = 10 // of the Proxies that are left
)

// rollbackFirst is how values can be changed still. Helm refuses an upgrade of a release whose uninstallation has begun.
const rollbackFirst = "before a value can be changed, helm rollback the release to its newest revision"

// Policy tells what becomes of Proxies when the operator is removed.
type Policy string

const (
	// Retain leaves them. It refuses to go on where there are some, for it is asked where the CRDs are about to go.
	Retain Policy = "Retain"
	// Delete deletes them while the operator still runs, so that it removes their machines.
	Delete Policy = "Delete"
)

// Uninstall is what must be done before the operator is removed. Its client must be able to list and delete Proxies.
type Uninstall struct {
	Client client.Client
	Clock  clock.Clock
	Log    logr.Logger
	Policy Policy
	// Namespaces are those that the operator watches; none stands for all.
	Namespaces []string
	// Timeout bounds Delete.
	Timeout time.Duration
	// Installation is what the operator is told from others by. Delete asks for it, again after an error.
	Installation func(context.Context) (string, error)
	// Other returns the installation whose a Proxy is if it isn't that of the given one. Delete leaves it alone then.
	Other func(p *v1alpha1.Proxy, installation string) string
	// CRDs says that they are about to go. Retain takes that for granted.
	CRDs bool
	// Lease is the one of the leader, by which Delete tells that no operator works; without a name it isn't looked at.
	Lease types.NamespacedName
}

// Run returns nil when the operator, and the CRDs too, may go without anything being lost. It may be called again. An error says what
// is left and what to do.
func (u *Uninstall) Run(ctx context.Context) error {
	if u.Policy == Delete {
		return u.delete(ctx)
	}
	left, err := u.proxies(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	return fmt.Errorf("the CRDs are about to go, and with them %s, whose machines nobody would remove: delete them while the operator runs, then uninstall again; "+
		"or set crds.keep=true or uninstall.policy=Delete; %s", describe(left, reason), rollbackFirst)
}

// delete asks for the deletion of every Proxy but those of other installations, and waits until the operator has let the last one go.
// One that somebody makes meanwhile goes as well.
func (u *Uninstall) delete(ctx context.Context) error {
	deadline := u.Clock.Now().Add(u.Timeout)
	told := &progress{log: u.Log}
	leader := &leadership{check: Check{Client: u.Client, Lease: u.Lease}, clock: u.Clock}
	for {
		left, others, err := u.pass(ctx)
		idle := leader.missing(ctx)
		switch {
		case apierrors.IsForbidden(err), errors.Is(err, errAnother), ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case err == nil && len(left) == 0:
			told.tell(left, others)
			return nil
		case !u.Clock.Now().Before(deadline):
			return u.timedOut(left, err, idle)
		case err != nil:
			u.Log.Error(err, "trying again")
		default:
			told.tell(left, others)
		}
		select {
		case <-ctx.Done():
		case <-u.Clock.After(lookEvery):
		}
	}
}

// progress tells what has changed since it told last.
type progress struct {
	log          logr.Logger
	left, others int
}

func (p *progress) tell(left, others []v1alpha1.Proxy) {
	if len(others) != p.others {
		p.log.Info("left alone, as they are another installation's; the CRDs must stay for them", "proxies", describe(others, nil))
	}
	if len(left) == 0 {
		p.log.Info("no Proxy is left to delete")
	} else if len(left) != p.left {
		p.log.Info("waiting until the operator has removed the machines", "proxies", len(left))
	}
	p.left, p.others = len(left), len(others)
}

var errAnother = errors.New("another installation of the operator")

// pass asks once for the deletion of what is there.
func (u *Uninstall) pass(ctx context.Context) (left, others []v1alpha1.Proxy, err error) {
	left, others, err = u.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	if u.CRDs && len(others) > 0 {
		return nil, nil, fmt.Errorf("the CRDs are about to go, and with them %s of %w: set crds.keep=true; %s", describe(others, nil), errAnother, rollbackFirst)
	}
	return left, others, u.deleteThese(ctx, left)
}

// look lists the operator's own Proxies, and those of others.
func (u *Uninstall) look(ctx context.Context) (own, others []v1alpha1.Proxy, err error) {
	installation, err := u.Installation(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := u.proxies(ctx)
	for i := range all {
		if u.Other(&all[i], installation) == "" {
			own = append(own, all[i])
		} else {
			others = append(others, all[i])
		}
	}
	return own, others, err
}

func (u *Uninstall) timedOut(left []v1alpha1.Proxy, err error, idle string) error {
	switch {
	case err != nil:
		return fmt.Errorf("after %s: %w; the operator is still installed: try again", u.Timeout, err)
	case idle != "":
		return fmt.Errorf("after %s these are left: %s. No operator works that would remove their machines: %s. See its Deployment and its pods, "+
			"then uninstall again; or set uninstall.policy=Retain to leave the Proxies and their machines; %s", u.Timeout, describe(left, nil), idle, rollbackFirst)
	default:
		return fmt.Errorf("after %s these are left: %s. The operator is still installed. See what holds them (kubectl describe proxy), then uninstall again; "+
			"or set uninstall.timeout to more, or uninstall.policy=Retain to leave them and their machines; %s", u.Timeout, describe(left, reason), rollbackFirst)
	}
}

// proxies lists those of the namespaces. Where there is no CRD there is none.
func (u *Uninstall) proxies(ctx context.Context) ([]v1alpha1.Proxy, error) {
	namespaces := u.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var all []v1alpha1.Proxy
	for _, ns := range namespaces {
		var page v1alpha1.ProxyList
		for {
			err := u.Client.List(ctx, &page, client.InNamespace(ns), client.Limit(pageSize), client.Continue(page.Continue))
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				return nil, nil
			}
			if err != nil {
				return nil, fmt.Errorf("list Proxies: %w", err)
			}
			all = append(all, page.Items...)
			if page.Continue == "" {
				break
			}
		}
	}
	return all, nil
}

func (u *Uninstall) deleteThese(ctx context.Context, proxies []v1alpha1.Proxy) error {
	var first error // the others are most often of the same kind
	for i := range proxies {
		p := &proxies[i]
		if !p.DeletionTimestamp.IsZero() {
			continue
		}
		// One that was made anew under the name is the next look's.
		err := u.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && first == nil {
			first = fmt.Errorf("delete Proxy %s: %w", client.ObjectKeyFromObject(p), err)
		}
	}
	return first
}

// reason is why a Proxy isn't Ready, as its operator has written last.
func reason(p *v1alpha1.Proxy) string {
	if p.Annotations[v1alpha1.AnnotationPaused] == "true" {
		return " (paused)"
	}
	if ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return " (" + ready.Reason + ")"
	}
	return ""
}

// describe names Proxies, with more about each if there is to be.
func describe(proxies []v1alpha1.Proxy, more func(*v1alpha1.Proxy) string) string {
	names := make([]string, 0, maxNamed)
	for i := range proxies {
		if len(names) == maxNamed {
			names = append(names, fmt.Sprintf("and %d more", len(proxies)-maxNamed))
			break
		}
		name := client.ObjectKeyFromObject(&proxies[i]).String()
		if more != nil {
			name += more(&proxies[i])
		}
		names = append(names, name)
	}
	word := "Proxies "
	if len(proxies) == 1 {
		word = "Proxy "
	}
	return word + strings.Join(names, ", ")
}
