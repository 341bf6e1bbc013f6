// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

const (
	newUserData = "#cloud-config\npackages: [squid]\n# rotated by the demo\n"
	newPassword = "rotated-password"
)

// rotateSecrets changes both Secrets of the samples: each Proxy that uses one gets a new instance.
func (d *demo) rotateSecrets(ctx context.Context) error {
	d.screen.scene("Secrets rotate", "User data and password change. A machine is made from them, so each is replaced by a new one: one at a time, as no more",
		"than 10 % of a namespace's machines, and at least one, may be down for changes (--disruption-budget).", "")
	withData, withAuth, err := secretUsers(d.samples.proxies)
	if err != nil {
		return err
	}
	names := []string{withAuth.Name, withData.Name}
	before, err := d.providerIDs(ctx)
	if err != nil {
		return err
	}
	old, err := d.targets(ctx, withAuth.Name)
	if err != nil {
		return err
	}
	started := time.Now()
	ref := withData.Spec.CloudInit.SecretRef
	if err := d.patchSecret(ctx, ref.Name, keyOf(ref), newUserData); err != nil {
		return err
	}
	if err := d.patchSecret(ctx, withAuth.Spec.CredentialsSecret(), "password", newPassword); err != nil {
		return err
	}
	if err := d.awaitReplaced(ctx, names, before); err != nil {
		return err
	}
	elapsed := took(started)
	if err := d.showReplaced(ctx, names, before); err != nil {
		return err
	}
	d.screen.ok("replaced %s", elapsed)
	if err := d.checkUserData(ctx, withData.Name); err != nil {
		return err
	}
	return d.checkPasswords(ctx, names, old)
}

// checkPasswords checks that the new instances serve, and nobody who comes with a password from before.
func (d *demo) checkPasswords(ctx context.Context, names []string, old []target) error {
	targets, err := d.targets(ctx, names...)
	if err != nil {
		return err
	}
	if err := d.showRequests(ctx, targets); err != nil {
		return err
	}
	for _, was := range old {
		for _, t := range targets {
			if t.name == was.name {
				d.checkRefused(ctx, t.with(was.password), "the old password")
			}
		}
	}
	return context.Cause(ctx)
}

// secretUsers finds the samples whose instances are made from a Secret.
func secretUsers(proxies []v1alpha1.Proxy) (withData, withAuth *v1alpha1.Proxy, err error) {
	for i := range proxies {
		p := &proxies[i]
		if p.Spec.CloudInit != nil && p.Spec.CloudInit.SecretRef != nil {
			withData = p
		}
		if p.Spec.Auth != nil {
			withAuth = p
		}
	}
	if withData == nil || withAuth == nil {
		return nil, nil, errors.New("config/samples must have a Proxy with spec.cloudInit.secretRef and one with spec.auth")
	}
	return withData, withAuth, nil
}

// keyOf is the key that the API server would have put in.
func keyOf(ref *v1alpha1.SecretKeyRef) string {
	if ref.Key == "" {
		return "user-data"
	}
	return ref.Key
}

func (d *demo) patchSecret(ctx context.Context, name, key, value string) error {
	return d.kube.show(ctx, "patch", "secret", name, "--type=merge", "--patch", fmt.Sprintf(`{"stringData":{%q:%q}}`, key, value))
}

// providerIDs are those of all Proxies by name.
func (d *demo) providerIDs(ctx context.Context) (map[string]string, error) {
	proxies, err := d.kube.proxies(ctx)
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, p := range proxies {
		ids[p.Name] = p.Status.ProviderID
	}
	return ids, nil
}

// awaitReplaced returns when the named Proxies are Ready with other instances than before.
func (d *demo) awaitReplaced(ctx context.Context, names []string, before map[string]string) error {
	return d.awaitProxies(ctx, "replaced Proxies", names, func(p *v1alpha1.Proxy) (bool, string) {
		if p.Status.ProviderID == before[p.Name] {
			return false, p.Name + ": still has " + before[p.Name]
		}
		return operator.IsReady(p), notReady(p)
	})
}

func (d *demo) showReplaced(ctx context.Context, names []string, before map[string]string) error {
	after, err := d.providerIDs(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, name := range names {
		rows = append(rows, []string{name, before[name], after[name]})
	}
	d.screen.table([]string{"PROXY", "PROVIDER ID BEFORE", "AND AFTER"}, rows)
	return nil
}

// checkUserData looks at what the new instance was given.
func (d *demo) checkUserData(ctx context.Context, proxy string) error {
	ids, err := d.providerIDs(ctx)
	if err != nil {
		return err
	}
	all, err := operator.Machines(d.StateDir())
	if err != nil {
		return err
	}
	for _, i := range all {
		if i.ProviderID() != ids[proxy] {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(i.Dir, "user-data")) // #nosec G304 -- in the demo's folder
		if err != nil {
			return fmt.Errorf("read user data: %w", err)
		}
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		d.check(string(raw) == newUserData, "the new machine of %s has the new user data; its last line: %s", proxy, lines[len(lines)-1])
		return nil
	}
	return fmt.Errorf("there is no machine %s of %s", ids[proxy], proxy)
}
