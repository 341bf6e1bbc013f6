// SPDX-License-Identifier: Apache-2.0

// Package local is the provider whose instances are forward-proxy processes on this machine, started from the
// operator's own binary. It is for trying the operator and for its tests: no cloud, no root, real traffic.
//
// An instance is a directory STATE/ZONE/NAME with the record of what was asked for, the credentials and the user data,
// and, while the process lives, a lock that the kernel holds for it. All that is told about an instance is read from
// there, so that any operator on the same directory finds every instance again, and a PID is never believed without its
// lock. The process has a session of its own and outlives the operator.
//
// A record that is lost or isn't whole makes its place nobody's: whoever reads it kills the process, if there is one, and
// sweeps the place, so that lists stay exact and the owner finds the instance gone and replaces it. What else is wrong
// with a place (its files can't be read) is the doubt of its owner alone: lists of others log it and go on. Only where the
// owner can't be told, because the whole directory can't be read, or where a process without a record can't be killed,
// does a list fail, since a part of it must not pass for the whole.
package local

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	// callDeadline covers the start of a process on a busy machine many times over.
	callDeadline = 30 * time.Second
	// startLimit is how long a new process may take to hold its lock before it is killed. It is below callDeadline, so
	// that a create never takes effect after it.
	startLimit = 20 * time.Second
	// stopGrace is how long a process may take to end its connections before it is killed.
	stopGrace = 10 * time.Second
	// killLimit is how long a killed process may take to be gone: the kernel's own work.
	killLimit = 2 * time.Second
	// pollEvery paces the waits for another process: for its lock, or for its end.
	pollEvery = 5 * time.Millisecond
)

// Options is what cmd knows and an account's configuration doesn't.
type Options struct {
	// Binary is the absolute path of the operator's own binary, which plays the forward proxy.
	Binary string
	// StateDir is the directory of instances where the account's configuration names none. Accounts may share it.
	StateDir string
	Clock    clock.Clock
	Log      logr.Logger
}

// Config is the section of an account of type local.
type Config struct {
	// StateDir is an absolute path; the directory is made when it is needed and must belong to the operator's user.
	StateDir string `yaml:"stateDir"`
	// Zones are names, in order of preference. They have no meaning on one machine: they are for trying zones out.
	Zones []string `yaml:"zones"`
}

// Provider runs the instances of one account.
type Provider struct {
	account string
	zones   []string
	opts    Options
	hook    func(point string) // tests crash here; nil in the product

	mu     sync.Mutex
	ending map[string]bool // directories whose process this value is ending
}

var (
	_ providers.Provider = (*Provider)(nil)
	_ providers.Checker  = (*Provider)(nil)

	// label is the shape of a zone's name: it becomes the name of a directory and a part of the Ref.
	label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// Factory returns the factory of accounts of type local.
func Factory(o Options) providers.Factory {
	return func(name string, section providers.Section) (providers.Provider, []string, error) {
		cfg := Config{StateDir: o.StateDir}
		if err := section.Decode(&cfg); err != nil {
			return nil, nil, err
		}
		if !filepath.IsAbs(cfg.StateDir) {
			return nil, nil, section.Errorf("stateDir", "%q must be an absolute path, like /var/lib/proxy-operator", cfg.StateDir)
		}
		for i, z := range cfg.Zones {
			if !label.MatchString(z) {
				return nil, nil, section.Errorf("zones", "%q must be at most 63 lower-case letters, digits and hyphens", z)
			}
			if z == zoneless {
				return nil, nil, section.Errorf("zones", "%q is kept for accounts without zones; choose another name", z)
			}
			if slices.Contains(cfg.Zones[:i], z) {
				return nil, nil, section.Errorf("zones", "%q is listed twice", z)
			}
		}
		o := o
		o.StateDir = filepath.Clean(cfg.StateDir)
		return newProvider(name, cfg.Zones, o), cfg.Zones, nil
	}
}

func newProvider(account string, zones []string, o Options) *Provider {
	return &Provider{account: account, zones: zones, opts: o, ending: map[string]bool{}}
}

// Traits tells that names are unique (a directory has one of each) and that reads are exact.
func (p *Provider) Traits() providers.Traits {
	return providers.Traits{UniqueNames: true, CallDeadline: callDeadline}
}

// Check refuses what a local process can't be: a container, another protocol than HTTP, a place that the account doesn't have, or
// credentials that HTTP's Basic authentication can't carry.
func (p *Provider) Check(req providers.CreateRequest) error {
	switch {
	case req.Image != "":
		return providers.Unsupported("spec.image", "an account of type local runs the operator's own proxy; leave the field out")
	case req.Pod != nil:
		return providers.Unsupported("spec.kubernetes", "it is for accounts of type kubernetes; leave it out")
	}
	if req.Protocol != "HTTP" {
		return providers.Unsupported("spec.protocol", "an account of type local serves HTTP only; write HTTP")
	}
	if req.Port < 1 || req.Port > 65535 {
		return providers.Unsupported("spec.port", "write a port from 1 to 65535")
	}
	if !req.BasicAuth() {
		return providers.Unsupported("spec.auth.secretRef", "name a Secret with a username (without a colon) and a password, neither with control characters")
	}
	if len(p.zones) == 0 && req.Key.Zone != "" {
		return providers.Unsupported("spec.location.zones", "this account has no zones; leave the field out")
	}
	if len(p.zones) > 0 && !slices.Contains(p.zones, req.Key.Zone) {
		return providers.Unsupported("spec.location.zones", "use zones of this account: "+strings.Join(p.zones, ", "))
	}
	return nil
}

func (p *Provider) reached(point string) {
	if p.hook != nil {
		p.hook(point)
	}
}
