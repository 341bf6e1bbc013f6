// SPDX-License-Identifier: Apache-2.0

// Package kubernetes is the provider whose instances are pods of the cluster that the operator works for.
//
// An instance is a pod in its Proxy's namespace and a Secret of the same name with the user data and the credentials. Both
// carry the whole record in an annotation; labels are there to be selected by, and prove nothing: what a person labelled to
// look like ours has no record that fits its name and namespace, and is neither adopted nor deleted. A pod whose record was wiped
// is known by its Secret, if that names the pod's UID as its owner. The pod is made first
// and owns the Secret; the Secret is removed first. So no Secret is left alone but where somebody else took the pod away,
// and then it is listed as what is left of the instance (docs/adr/0023-pods.md).
//
// All reads go to the API server itself, never to a cache, so they are exact.
package kubernetes

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	// callDeadline covers an API server that is busy; it is told, and gives up by then.
	callDeadline = 30 * time.Second
	// halfMadeAfter is when a pod that waits for a Secret which isn't there is given up: nobody makes the Secret any more once
	// the create's deadline is over, by clocks that may differ.
	halfMadeAfter = 2 * time.Minute
	// forceAfter is how long after its deadline a pod that is being deleted is believed to end by itself. Then its node is
	// lost: a forward proxy has no state to fear for, and the kubelet ends the old one when it comes back.
	forceAfter = 5 * time.Minute
	// overdueAfter is how long after its deadline a pod that is being deleted is said to be kept by something.
	overdueAfter = time.Minute
	// pageSize of lists, as kubectl has it.
	pageSize = 500
)

// Options is what cmd knows and an account's configuration doesn't.
type Options struct {
	// Cluster is how the API server is reached; nil: the account can be configured and not used.
	Cluster *rest.Config
	// Namespaces are those that are watched; nil: all.
	Namespaces []string
	// Image of the operator itself, which plays the forward proxy.
	Image string
	Clock clock.PassiveClock
	Log   logr.Logger
}

// Config is the section of an account of type kubernetes.
type Config struct {
	// Image that plays the forward proxy where a Proxy names none. It must be the operator's own, in any registry.
	Image string `yaml:"image"`
}

// Provider runs the pods of one account.
type Provider struct {
	account  string
	image    string
	opts     Options
	api      api
	pageSize int64
}

var (
	_ providers.Provider = (*Provider)(nil)
	_ providers.Checker  = (*Provider)(nil)

	name = regexp.MustCompile(`^px-[a-z2-7]{24}$`)
)

// Factory returns the factory of accounts of type kubernetes.
func Factory(o Options) providers.Factory {
	return func(account string, section providers.Section) (providers.Provider, []string, error) {
		cfg := Config{Image: o.Image}
		if err := section.Decode(&cfg); err != nil {
			return nil, nil, err
		}
		if want := ImageProblem(cfg.Image); want != "" {
			return nil, nil, section.Errorf("image", "%q is not the name of an image; %s", cfg.Image, want)
		}
		p := &Provider{account: account, image: cfg.Image, opts: o, pageSize: pageSize}
		if o.Cluster == nil {
			return p, nil, nil
		}
		var err error
		if p.api, err = connect(o.Cluster, o.Clock); err != nil {
			return nil, nil, fmt.Errorf("set up the client of account %s: %w", account, err)
		}
		return p, nil, nil
	}
}

// Traits tells that names are unique, that reads are exact, and that quotas are those of namespaces.
func (p *Provider) Traits() providers.Traits {
	return providers.Traits{UniqueNames: true, QuotaPerNamespace: true, CallDeadline: callDeadline}
}

// Check refuses what a pod can't be, as far as it can be told without the API server.
func (p *Provider) Check(req providers.CreateRequest) error {
	if req.Key.Zone != "" {
		return providers.Unsupported("spec.location.zones", "leave it out, and name zones in spec.kubernetes.nodeSelector or spec.kubernetes.affinity, by the node label topology.kubernetes.io/zone")
	}
	if req.Port < 1 || req.Port > 65535 {
		return providers.Unsupported("spec.port", "write a port from 1 to 65535")
	}
	if err := checkLabels(req.Labels); err != nil {
		return err
	}
	if req.Image != "" {
		if want := ImageProblem(req.Image); want != "" {
			return providers.Unsupported("spec.image", want)
		}
		return nil // the rest is its own business
	}
	if req.Protocol != "HTTP" {
		return providers.Unsupported("spec.protocol", "the operator's own image serves HTTP only; write HTTP, or name another image in spec.image")
	}
	if !req.BasicAuth() {
		return providers.Unsupported("spec.auth.secretRef", "name a Secret with a username (without a colon) and a password, neither with control characters")
	}
	return nil
}

// checkLabels refuses what can't be a pod's label. Clouds take more.
func checkLabels(labels map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(labels)) { // the same one is told of every time
		switch {
		case k == labelManagedBy:
			return providers.Unsupported("spec.labels", "write another key than "+k+", which is the operator's own on a pod")
		case len(validation.IsQualifiedName(k)) > 0:
			return providers.Unsupported("spec.labels", "write a pod's label instead of "+k+": a name, or a DNS name in lower case, a slash and a name")
		case len(validation.IsValidLabelValue(labels[k])) > 0:
			return providers.Unsupported("spec.labels", "write another value of "+k+": at most 63 letters, digits, hyphens, underscores and dots")
		}
	}
	return nil
}
