// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/providers"
)

// Want is what the spec, its Secrets and the configuration ask for.
type Want struct {
	Problem *Problem // why nothing can be made from it now; nil: all is well

	Owner      string
	Account    string
	Zones      []string // that the spec allows; empty: any
	Candidates []string // to create in, in order of preference
	Material   material
	Pod        *providers.Pod // the material's, as the provider gets it
	Care       Care
	Inputs     string // hash of all this, of generation and configuration: what a failure is remembered by
}

// Problem is why a machine can't be made from the spec until somebody changes something.
type Problem struct {
	Reason  string // of the condition Stalled
	Message string // fixed sentences with nouns from the spec; says what to do
	After   time.Duration
}

// Error makes a Problem an error on its way up; it never leaves this package.
func (p *Problem) Error() string { return p.Reason + ": " + p.Message }

// hash is the specHash of a machine made now.
func (w Want) hash() string { return specHash(w.Material, w.Owner) }

// drifted reports whether the instance was made from other material, in the version of the hash that it carries. One
// that carries no hash, or one of a version from the future, is taken as it is: an operator never rolls a fleet because
// it was itself exchanged.
func (w Want) drifted(i providers.Instance) bool {
	if w.Problem != nil || i.Tags.SpecHash == "" {
		return false
	}
	h, known := specHashIn(versionOf(i.Tags.SpecHash), w.Material, w.Owner)
	return known && h != i.Tags.SpecHash
}

func (w Want) inPlace(i providers.Instance) bool {
	return w.Problem != nil || (i.Ref.Account == w.Account && w.allows(i.Zone))
}

func (w Want) allows(zone string) bool { return len(w.Zones) == 0 || slices.Contains(w.Zones, zone) }

// asked reports whether the intent asks for what is wanted now.
func (w Want) asked(in Intent) bool {
	return w.Problem == nil && in.Account == w.Account && w.allows(in.Zone) && in.Hash == w.hash()
}

// want resolves the Proxy's inputs. What a user can mend comes back as Want.Problem, anything else as an error. fresh
// reads past every cache: a stale view must not destroy.
func (r *ProxyReconciler) want(ctx context.Context, p *v1alpha1.Proxy, fresh bool) (Want, error) {
	w := Want{Owner: string(p.UID), Account: p.Spec.Provider}
	if p.Spec.Location != nil {
		for _, z := range p.Spec.Location.Zones {
			w.Zones = append(w.Zones, string(z))
		}
	}
	w.Care = r.care(p)
	err := r.resolve(ctx, p, &w, fresh)
	acc := r.Providers[w.Account]
	w.Inputs = digest(p.Generation, w.Material, w.Account, acc.Fingerprint, p.Annotations[v1alpha1.AnnotationReconcileRequestedAt])
	if errors.As(err, &w.Problem) {
		return w, nil
	}
	return w, err
}

func (r *ProxyReconciler) resolve(ctx context.Context, p *v1alpha1.Proxy, w *Want, fresh bool) error {
	acc, err := r.account(p)
	if err != nil {
		return err
	}
	if w.Candidates = w.Zones; len(w.Zones) == 0 {
		w.Candidates = acc.Zones
	}
	w.Material = material{
		Port: p.Spec.ListenPort(), Protocol: string(p.Spec.ListenProtocol()), Image: p.Spec.Image, Pod: p.Spec.Kubernetes,
	}
	if w.Pod, err = podOf(p.Spec.Kubernetes); err != nil {
		return err
	}
	for k, v := range p.Spec.Labels {
		if w.Material.Labels == nil {
			w.Material.Labels = map[string]string{}
		}
		w.Material.Labels[k] = string(v)
	}
	if w.Material.UserData, err = r.resolveCloudInit(ctx, p, fresh); err != nil {
		return err
	}
	if w.Material.Username, w.Material.Password, err = r.resolveAuth(ctx, p, fresh); err != nil {
		return err
	}
	return r.check(p, acc, w)
}

// care is what the spec says about machines that don't work, with the operator's defaults.
func (r *ProxyReconciler) care(p *v1alpha1.Proxy) Care {
	d := r.HealthDefaults
	c := Care{Remediate: true, ReplaceAfter: d.UnhealthyTimeout}
	c.BootDeadline, c.MaxAge = duration(p.Spec.BootDeadline, d.BootDeadline), duration(p.Spec.MaxAge, 0)
	if h := p.Spec.HealthCheck; h != nil {
		c.Remediate = value(h.Remediation, v1alpha1.RemediationReplace) == v1alpha1.RemediationReplace
		c.ReplaceAfter = duration(h.ReplaceAfter, c.ReplaceAfter)
	}
	return c
}

// account finds the wanted account, or says which there are.
func (r *ProxyReconciler) account(p *v1alpha1.Proxy) (providers.Account, error) {
	acc, ok := r.Providers[p.Spec.Provider]
	if !ok {
		return acc, &Problem{v1alpha1.ReasonPermanentError, fmt.Sprintf(
			"spec.provider: account %q is not in the operator's configuration; known accounts: %s.", p.Spec.Provider, r.Providers.Names()), driftPoll}
	}
	if !acc.Allows(p.Namespace) {
		return acc, &Problem{v1alpha1.ReasonPermanentError, fmt.Sprintf(
			"spec.provider: account %q may not be used in namespace %q; ask for allowedNamespaces in the operator's configuration, or use another account.",
			acc.Name, p.Namespace), driftPoll}
	}
	return acc, nil
}

// check asks the provider whether the request can work at all, before a running machine is taken down for it.
func (r *ProxyReconciler) check(p *v1alpha1.Proxy, acc providers.Account, w *Want) error {
	c, ok := acc.Provider.(providers.Checker)
	if !ok {
		return nil
	}
	zones := w.Candidates
	if len(zones) == 0 {
		zones = []string{""}
	}
	for _, z := range zones {
		err := c.Check(r.request(p, *w, Intent{UID: p.UID, Incarnation: 1, Account: acc.Name, Zone: z}))
		var pe *providers.Error
		if errors.As(err, &pe) {
			return &Problem{v1alpha1.ReasonPermanentError, permanentMessage(acc.Name, pe), permanentRetry}
		}
		if err != nil {
			return fmt.Errorf("check request: %w", err)
		}
	}
	return nil
}

// request is the create of an intent. Two passes with equal inputs build equal requests.
func (r *ProxyReconciler) request(p *v1alpha1.Proxy, w Want, in Intent) providers.CreateRequest {
	key := in.key(r.Installation)
	return providers.CreateRequest{
		Key: key, Name: key.Name(),
		Tags: providers.Tags{
			ManagedBy: providers.ManagedBy, Installation: r.Installation, OwnerUID: string(p.UID),
			Namespace: p.Namespace, Name: p.Name, Incarnation: in.Incarnation, SpecHash: in.Hash,
		},
		UserData: w.Material.UserData, Port: w.Material.Port, Protocol: w.Material.Protocol,
		Username: w.Material.Username, Password: w.Material.Password, Labels: w.Material.Labels,
		Image: w.Material.Image, Pod: w.Pod,
	}
}

// podOf is the pod section as the contract has it: the same names, in Kubernetes' own types; nil where there is none.
func podOf(section *v1alpha1.KubernetesPod) (pod *providers.Pod, err error) {
	raw, err := json.Marshal(section)
	if err == nil {
		err = json.Unmarshal(raw, &pod)
	}
	if err != nil {
		return nil, fmt.Errorf("read spec.kubernetes: %w", err)
	}
	return pod, nil
}
