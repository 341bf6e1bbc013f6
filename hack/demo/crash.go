// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/controllers"
	"github.com/proxy-operator/proxy-operator/hack/operator"
	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	burst      = 4 // Proxies created at once, more than the operator works on at a time
	crashTries = 5

	momentEvery = time.Millisecond // a create takes a few dozen
	momentLimit = 30 * time.Second
)

// moment is a point in a create at which the operator is killed.
type moment struct {
	name    string
	reached func(operator.Machine) bool // of an instance that wasn't there before
}

var moments = []moment{
	{"the folder of a new machine is there", func(operator.Machine) bool { return true }},
	{"the process of a new machine runs, of which nobody knows yet", func(m operator.Machine) bool { return m.PID != 0 }},
}

// crash kills the operator while it creates, and looks what comes of it.
func (d *demo) crash(ctx context.Context) error {
	d.screen.scene("kill -9 in the middle of a create",
		fmt.Sprintf("%d more Proxies at once, twice. The operator is killed as soon as something of a new machine is seen on disk.", burst))
	before, err := d.pids()
	if err != nil {
		return err
	}
	for n, m := range moments {
		d.screen.print("\n%sKill %d: %s", indent, n+1, m.name)
		if err := d.crashAt(ctx, m); err != nil {
			return err
		}
	}
	if err := d.showCounts(ctx); err != nil {
		return err
	}
	return d.checkUnharmed(ctx, before)
}

// crashAt kills the operator at the moment, sends requests while it is dead, and starts it again. A create that was
// quicker than the kill doesn't count.
func (d *demo) crashAt(ctx context.Context, m moment) error {
	targets, err := d.targets(ctx)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		names := d.crashNames()
		if err := d.killDuring(ctx, names, m); err != nil {
			return err
		}
		cut, err := d.showCut(ctx, names, m)
		if err != nil {
			return err
		}
		if cut > 0 || try == crashTries {
			d.check(cut > 0, "creates that it had begun and not recorded: %d", cut)
			break
		}
		d.screen.note("it had recorded what it had begun; once more")
		if err := d.restart(ctx); err != nil {
			return err
		}
	}
	good, sent := d.countRequests(ctx, targets)
	d.check(good == sent, "without an operator %d of %d requests through the %d proxies from before are answered", good, sent, len(targets))
	return d.restart(ctx)
}

// crashNames are the names of the next Proxies.
func (d *demo) crashNames() []string {
	var names []string
	for range burst {
		d.crashes++
		names = append(names, fmt.Sprintf("crash-%d", d.crashes))
	}
	return names
}

// killDuring creates the Proxies at once and kills the operator at the moment.
func (d *demo) killDuring(ctx context.Context, names []string, m moment) error {
	known, err := operator.MachineDirs(d.StateDir())
	if err != nil {
		return err
	}
	created := make(chan error, len(names))
	for _, name := range names {
		go func() {
			created <- d.kube.client.Create(ctx, &v1alpha1.Proxy{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
				Spec:       v1alpha1.ProxySpec{Provider: "local"},
			})
		}()
	}
	err = d.awaitMoment(ctx, known, m)
	if killErr := d.operator.stopNow(); err != nil || killErr != nil {
		return errors.Join(err, killErr)
	}
	for range names {
		if err := <-created; err != nil {
			return fmt.Errorf("create Proxy: %w", err)
		}
	}
	d.screen.command(fmt.Sprintf("kill -9 %d", d.operator.PID))
	return nil
}

// awaitMoment returns when it is reached in a folder that isn't among the known ones.
func (d *demo) awaitMoment(ctx context.Context, known []string, m moment) error {
	ctx, cancel := context.WithTimeoutCause(ctx, momentLimit, fmt.Errorf("not seen after %s", momentLimit))
	defer cancel()
	ticker := time.NewTicker(momentEvery)
	defer ticker.Stop()
	for {
		all, err := operator.Machines(d.StateDir())
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(i operator.Machine) bool { return !slices.Contains(known, i.Dir) && m.reached(i) }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", m.name, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// showCut shows what the dead operator has left, and counts the creates that it began and didn't record, of those in
// which the moment was reached.
func (d *demo) showCut(ctx context.Context, names []string, m moment) (cut int, err error) {
	proxies, err := d.kube.proxies(ctx)
	if err != nil {
		return 0, err
	}
	cluster, err := controllers.ClusterUID(ctx, d.kube.client)
	if err != nil {
		return 0, fmt.Errorf("read the cluster's UID: %w", err)
	}
	all, err := operator.Machines(d.StateDir())
	if err != nil {
		return 0, err
	}
	var rows [][]string
	for i := range proxies {
		p := &proxies[i]
		if !slices.Contains(names, p.Name) {
			continue
		}
		row := []string{p.Name, "none", "nothing", orNone(p.Status.ProviderID)}
		if in := intent(p); in != nil {
			row[1] = "written"
			if begun, ok := instanceOf(all, in, string(cluster)); ok {
				row[2] = stage(begun)
				if p.Status.ProviderID == "" && m.reached(begun) {
					cut++
				}
			}
		}
		rows = append(rows, row)
	}
	d.screen.table([]string{"PROXY", "INTENT", "ON DISK", "STATUS.PROVIDERID"}, rows)
	return cut, nil
}

// intent is what the operator wrote before the newest create; nil: nothing.
func intent(p *v1alpha1.Proxy) *controllers.Intent {
	var in controllers.Intent
	if json.Unmarshal([]byte(p.Annotations[v1alpha1.AnnotationIntent]), &in) != nil {
		return nil
	}
	return &in
}

// instanceOf finds what has the name that the intent's create gives.
func instanceOf(all []operator.Machine, in *controllers.Intent, cluster string) (operator.Machine, bool) {
	key := providers.Key{
		InstallationID: providers.InstallationID(cluster, "default"), ProxyUID: string(in.UID),
		Incarnation: in.Incarnation, Account: in.Account, Zone: in.Zone,
	}
	for _, i := range all {
		if i.Name == key.Name() {
			return i, true
		}
	}
	return operator.Machine{}, false
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// restart starts the operator again and returns when all Proxies are Ready.
func (d *demo) restart(ctx context.Context) error {
	started := time.Now()
	if err := d.startOperator(ctx); err != nil {
		return err
	}
	proxies, err := d.kube.proxies(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, p := range proxies {
		names = append(names, p.Name)
	}
	if err := d.awaitReady(ctx, names); err != nil {
		return err
	}
	d.screen.ok("started again as process %d: all %d Proxies are Ready %s", d.operator.PID, len(names), took(started))
	return nil
}

// checkUnharmed checks that the instances from before the kills are the same, and that all serve.
func (d *demo) checkUnharmed(ctx context.Context, before map[string]int) error {
	after, err := d.pids()
	if err != nil {
		return err
	}
	same := 0
	for id, pid := range before {
		if after[id] == pid {
			same++
		}
	}
	d.check(same == len(before), "%d of %d machines from before are still the same processes", same, len(before))
	targets, err := d.targets(ctx)
	if err != nil {
		return err
	}
	good, sent := d.countRequests(ctx, targets)
	d.check(good == sent, "%d of %d requests through all %d proxies are answered", good, sent, len(targets))
	return context.Cause(ctx)
}

// showCounts shows that each Managed Proxy has exactly one instance and one process.
func (d *demo) showCounts(ctx context.Context) error {
	proxies, err := d.kube.proxies(ctx)
	if err != nil {
		return err
	}
	all, err := operator.Machines(d.StateDir())
	if err != nil {
		return err
	}
	running, err := operator.RunningMachines(ctx, d.StateDir())
	if err != nil {
		return err
	}
	counts := countByOwner(all, running)
	var rows [][]string
	single := true
	managed := 0
	for _, p := range proxies {
		if p.Spec.Mode == v1alpha1.ModeExternal {
			continue
		}
		managed++
		c := counts[string(p.UID)]
		single = single && c == count{1, 1, p.Status.ProviderID}
		rows = append(rows, []string{p.Name, fmt.Sprint(c.machines), fmt.Sprint(c.processes), p.Status.ProviderID})
	}
	d.screen.table([]string{"PROXY", "MACHINES", "PROCESSES", "STATUS.PROVIDERID"}, rows)
	good := single && len(all) == managed && len(running) == managed
	d.check(good, "%d Managed Proxies, %d machines on disk, %d processes in the system's table", managed, len(all), len(running))
	return nil
}

// pids are the processes of all instances by providerID.
func (d *demo) pids() (map[string]int, error) {
	all, err := operator.Machines(d.StateDir())
	if err != nil {
		return nil, err
	}
	pids := map[string]int{}
	for _, i := range all {
		pids[i.ProviderID()] = i.PID
	}
	return pids, nil
}
