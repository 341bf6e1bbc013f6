// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/proxy-operator/proxy-operator/controllers"
	"github.com/proxy-operator/proxy-operator/internal/health"
	"github.com/proxy-operator/proxy-operator/internal/health/probe"
	"github.com/proxy-operator/proxy-operator/internal/judge"
)

// healthOptions are the flags about probes and what follows from them.
type healthOptions struct {
	check            bool
	judgeURL         string
	judgeAddress     string
	targets          []string
	interval         time.Duration
	timeout          time.Duration
	unhealthyTimeout time.Duration
	bootDeadline     time.Duration
	deny             []string
	budget           string
}

func (o *healthOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.check, "health-check", true, "probe every proxy; if false, Ready says only that the machine runs")
	f.StringVar(&o.judgeURL, "judge-url", "", "URL at which the judge can be reached through the proxies; it also tells their exit addresses")
	f.StringVar(&o.judgeAddress, "judge-bind-address", "", `HOST:PORT at which the manager itself serves a judge, for proxies on this machine; none by default, or with "0"`)
	f.StringArrayVar(&o.targets, "health-target", nil, "URL that is asked for through every proxy, beside the judge; may be given several times. A Proxy may name others")
	f.DurationVar(&o.interval, "health-interval", 15*time.Second, "time from probe to probe of a proxy; shorter while it boots or fails")
	f.DurationVar(&o.timeout, "health-timeout", 5*time.Second, "how long one probe may take")
	f.DurationVar(&o.unhealthyTimeout, "unhealthy-timeout", 2*time.Minute, "how long a machine must be unhealthy before it is replaced")
	f.DurationVar(&o.bootDeadline, "boot-deadline", 10*time.Minute, "how long a new machine may take until traffic gets through it; then it is replaced")
	f.StringSliceVar(&o.deny, "health-deny-cidr", nil, "addresses that targets and endpoints which users name may not have; by default those of the machine itself, its link, and of clouds' metadata services")
	f.StringVar(&o.budget, "disruption-budget", "10%", "how many machines of a namespace, or which part of them, may be down at a time because the operator chose to replace them; at least one may")
}

// validate refuses what can't work, and says what to write.
func (o *healthOptions) validate() error {
	for flag, d := range map[string]time.Duration{
		"health-interval": o.interval, "health-timeout": o.timeout, "unhealthy-timeout": o.unhealthyTimeout, "boot-deadline": o.bootDeadline,
	} {
		if d < 100*time.Millisecond {
			return fmt.Errorf("--%s=%s: write at least 100ms", flag, d)
		}
	}
	if o.bootDeadline < 30*time.Second {
		return fmt.Errorf("--boot-deadline=%s: write at least 30s, as for spec.bootDeadline", o.bootDeadline)
	}
	if o.timeout > o.interval {
		return fmt.Errorf("--health-timeout=%s: write at most --health-interval, which is %s", o.timeout, o.interval)
	}
	if err := o.validateTargets(); err != nil {
		return err
	}
	if _, err := o.denied(); err != nil {
		return err
	}
	_, err := o.disruption()
	return err
}

// validateTargets asks the probes' own parser: what they can't ask for would make no Proxy Ready.
func (o *healthOptions) validateTargets() error {
	urls := map[string][]string{"health-target": o.targets}
	if o.judgeURL != "" {
		urls["judge-url"] = []string{o.judgeURL}
	}
	for flag, all := range urls {
		for _, u := range all {
			if err := probe.CheckTarget(u); err != nil { // which doesn't repeat the URL
				return fmt.Errorf("--%s: %w; write an absolute URL with http or https and without a user name, such as http://judge.example.com:8080/", flag, err)
			}
		}
	}
	if o.servesJudge() && o.judgeURL == "" && (!hasHost(o.judgeAddress) || probe.CheckTarget(ownJudge(o.judgeAddress)) != nil) {
		return fmt.Errorf("--judge-bind-address=%s: write the HOST by which proxies reach it too, and the PORT as a number, or name a --judge-url", o.judgeAddress)
	}
	return nil
}

// ownJudge is the URL of the judge that the manager itself serves.
func ownJudge(address string) string { return "http://" + address + "/" }

func (o *healthOptions) servesJudge() bool { return o.judgeAddress != "" && o.judgeAddress != "0" }

// hasHost reports whether an address to listen on can stand in a URL too. One that is broken is refused elsewhere.
func hasHost(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return host != "" && (err != nil || !ip.IsUnspecified())
}

func (o *healthOptions) denied() ([]netip.Prefix, error) {
	if len(o.deny) == 0 {
		return probe.DefaultDeny(), nil
	}
	var out []netip.Prefix
	for _, s := range o.deny {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("--health-deny-cidr=%s: write addresses as 192.0.2.0/24 or 2001:db8::/32", s)
		}
		out = append(out, p)
	}
	return out, nil
}

func (o *healthOptions) disruption() (intstr.IntOrString, error) {
	b := intstr.Parse(o.budget)
	n, err := intstr.GetScaledValueFromIntOrPercent(&b, 100, false)
	if err != nil || n < 0 || (b.Type == intstr.String && n > 100) {
		return b, fmt.Errorf("--disruption-budget=%s: write a number such as 3, or a part such as 10%%", o.budget)
	}
	return b, nil
}

// defaults are what holds where a Proxy's spec is silent.
func (o *healthOptions) defaults() controllers.HealthDefaults {
	d := controllers.HealthDefaults{Interval: o.interval, Timeout: o.timeout, UnhealthyTimeout: o.unhealthyTimeout, BootDeadline: o.bootDeadline}
	judgeURL := o.judgeURL
	if judgeURL == "" && o.servesJudge() {
		judgeURL = ownJudge(o.judgeAddress)
	}
	if judgeURL != "" {
		d.Targets = append(d.Targets, probe.Target{URL: judgeURL, Judge: true, Trusted: true})
	}
	for _, t := range o.targets {
		d.Targets = append(d.Targets, probe.Target{URL: t, Trusted: true})
	}
	return d
}

// addTo builds the health engine and gives it to the reconciler. The engine runs on the leader alone; the judge on all.
func (o *healthOptions) addTo(ctx context.Context, mgr ctrl.Manager, r *controllers.ProxyReconciler) error {
	budget, err := o.disruption()
	if err != nil {
		return err
	}
	r.DisruptionBudget = budget
	if o.servesJudge() {
		if err := mgr.Add(onEveryReplica{o.judge(mgr)}); err != nil {
			return err
		}
	}
	if !o.check {
		return nil
	}
	deny, err := o.denied()
	if err != nil {
		return err
	}
	logger := mgr.GetLogger().WithName("health")
	prober := &probe.Prober{Timeout: time.Minute /* the longest that a spec may ask for; the engine bounds each probe */, Deny: deny, DenyProxy: deny, Sessions: tls.NewLRUClientSessionCache(1024)}
	engine := health.New(health.Options{
		Prober: prober, Clock: clock.RealClock{}, Log: logger, Changed: r.HealthChanged, Named: r.HealthNamed,
		HeldChanged: func(pool string, held bool) {
			r.HealthHeld(log.IntoContext(ctx, logger), pool, held)
		},
	})
	r.Health, r.HealthDefaults = engine, o.defaults()
	return errors.Join(metrics.Registry.Register(engine), mgr.Add(manager.RunnableFunc(engine.Run)))
}

// judge serves one, and has the manager's logger tell of it: the lines of a log are all of one kind.
func (o *healthOptions) judge(mgr ctrl.Manager) manager.RunnableFunc {
	return func(ctx context.Context) error {
		err := judge.Run(ctx, judge.Options{
			BindAddress: o.judgeAddress, LogOutput: io.Discard,
			Listening: func(at net.Addr) { mgr.GetLogger().WithName("judge").Info("listening", "address", at.String()) },
		})
		if err != nil {
			return fmt.Errorf("--judge-bind-address=%s: %w", o.judgeAddress, err)
		}
		return nil
	}
}

// onEveryReplica is a runnable that doesn't wait for leadership.
type onEveryReplica struct{ manager.RunnableFunc }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (onEveryReplica) NeedLeaderElection() bool { return false }

// judged tells a reader of the log what proxies are proved by.
func (o *healthOptions) judged() string {
	var urls []string
	for _, t := range o.defaults().Targets {
		urls = append(urls, t.URL)
	}
	switch {
	case !o.check:
		return "not probed"
	case len(urls) == 0:
		return "only those that Proxies name"
	}
	return strings.Join(urls, ", ")
}
