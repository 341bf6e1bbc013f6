// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// verdict is the difference between what is wanted and what there is.
type verdict struct {
	machines int                 // that run
	wrong    map[string][]string // what is wrong with a wanted Proxy, by its name
	stray    []string            // what nobody wants
}

func (v *verdict) missing() int  { return len(v.wrong) }
func (v *verdict) leftOver() int { return len(v.stray) }
func (v *verdict) exact() bool   { return v.missing() == 0 && v.leftOver() == 0 }

// add takes in what else is wrong.
func (v *verdict) add(wrong map[string][]string) {
	for name, complaints := range wrong {
		v.wrong[name] = append(v.wrong[name], complaints...)
	}
}

// first is one thing that is wrong.
func (v *verdict) first() string {
	for _, name := range slices.Sorted(maps.Keys(v.wrong)) {
		return name + ": " + v.wrong[name][0]
	}
	if len(v.stray) > 0 {
		return v.stray[0]
	}
	return "nothing"
}

// judge compares. With nothing wanted, whatever there is is left over.
func judge(w *wanted, s *seen) verdict {
	if w == nil {
		w = newWanted()
	}
	v := verdict{machines: len(s.running), wrong: map[string][]string{}}
	folders, running := byOwner(s.folders), byOwner(s.running)
	for i := range s.proxies {
		p := &s.proxies[i]
		if w.proxies[p.Name] != p.UID {
			v.stray = append(v.stray, fmt.Sprintf("Proxy %s, UID %s, phase %s", p.Name, p.UID, p.Status.Phase))
			continue
		}
		own := string(p.UID)
		if wrong := judgeOne(w, p, folders[own], running[own], s.inputs); len(wrong) > 0 {
			v.wrong[p.Name] = wrong
		}
	}
	there := map[string]bool{}
	for i := range s.proxies {
		there[string(s.proxies[i].UID)] = true
	}
	owners := map[string]bool{}
	for name, uid := range w.proxies {
		owners[string(uid)] = true
		if !there[string(uid)] {
			v.wrong[name] = append(v.wrong[name], fmt.Sprintf("there is no Proxy with the UID %s that it was created with", uid))
		}
	}
	v.stray = append(v.stray, strays(owners, folders, running)...)
	return v
}

func byOwner(machines []operator.Machine) map[string][]operator.Machine {
	by := map[string][]operator.Machine{}
	for _, m := range machines {
		by[m.Owner()] = append(by[m.Owner()], m)
	}
	return by
}

// strays are the machines of nobody, and those beside the one that a Proxy is to have. Folder and process are one.
func strays(owners map[string]bool, folders, running map[string][]operator.Machine) []string {
	about := map[string]map[string]string{} // by owner and folder
	for _, by := range []map[string][]operator.Machine{folders, running} {
		for owner, machines := range by {
			if about[owner] == nil {
				about[owner] = map[string]string{}
			}
			for _, m := range machines {
				about[owner][m.Dir] = fmt.Sprintf("machine %s of owner %q, process %d", m.Name, owner, m.PID)
			}
		}
	}
	var all []string
	for owner, machines := range about {
		texts := slices.Sorted(maps.Values(machines))
		if owners[owner] {
			texts = texts[1:]
		}
		all = append(all, texts...)
	}
	slices.Sort(all)
	return all
}

// judgeOne tells what is wrong with a Proxy that is wanted, given the folders and processes of machines that say they are
// its own.
func judgeOne(w *wanted, p *v1alpha1.Proxy, folders, running []operator.Machine, from map[string]inputs) (wrong []string) {
	complain := func(good bool, format string, args ...any) {
		if !good {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	complain(p.DeletionTimestamp.IsZero(), "it is being deleted, and nobody deleted it")
	complain(operator.IsReady(p), "it isn't Ready: phase %s, generation %d, observed %d", p.Status.Phase, p.Generation, p.Status.ObservedGeneration)
	complain(len(folders) == 1, "it has %d folders of machines", len(folders))
	complain(len(running) == 1, "it has %d processes", len(running))
	if len(folders) != 1 || len(running) != 1 {
		return wrong
	}
	m, status := folders[0], p.Status
	complain(m.Dir == running[0].Dir && m.PID == running[0].PID, "the folder %s is held by process %d, but %s runs as %d", m.Name, m.PID, running[0].Name, running[0].PID)
	complain(status.ProviderID == m.ProviderID(), "providerID is %s, the machine is %s", status.ProviderID, m.ProviderID())
	complain(status.IP == m.Record.Address && status.Port == m.Record.Port, "status says %s:%d, the machine %s:%d", status.IP, status.Port, m.Record.Address, m.Record.Port)
	if i := status.Instance; i == nil {
		complain(false, "status.instance is empty")
	} else {
		complain(i.Name == m.Name && i.Incarnation == m.Record.Tags.Incarnation && i.SpecHash == m.Record.Tags.SpecHash,
			"status.instance is %+v, the machine %+v", *i, m.Record.Tags)
	}
	return append(wrong, judgeSpec(w, p, m, from[m.Dir])...)
}

// judgeSpec tells where a machine isn't made from the spec as it is now. Secrets are compared, and not shown.
func judgeSpec(w *wanted, p *v1alpha1.Proxy, m operator.Machine, from inputs) (wrong []string) {
	// Where the system has one address only, the port is the first that is free.
	if want := p.Spec.ListenPort(); m.Record.Port != want && m.Record.Address != "127.0.0.1" {
		wrong = append(wrong, fmt.Sprintf("the machine has port %d, the spec %d", m.Record.Port, want))
	}
	labels := map[string]string{}
	for k, v := range p.Spec.Labels {
		labels[k] = string(v)
	}
	if !maps.Equal(labels, m.Record.Labels) {
		wrong = append(wrong, fmt.Sprintf("the machine has labels %v, the spec %v", m.Record.Labels, labels))
	}
	if from.userData != w.dataOf(p) {
		wrong = append(wrong, "the machine has other user data than is wanted now")
	}
	if from.login != w.loginOf(p) {
		wrong = append(wrong, "the machine has another login than is wanted now")
	}
	return wrong
}

// doubles are the owners of two machines that both ran at one moment: of those that run before and after it.
func doubles(before, after []operator.Machine) map[string][]string {
	still := map[int]bool{}
	for _, m := range after {
		still[m.PID] = true
	}
	found := map[string][]string{}
	for owner, machines := range byOwner(before) {
		var both []string
		for _, m := range machines {
			if still[m.PID] && owner != "" {
				both = append(both, m.Name)
			}
		}
		if len(both) > 1 {
			found[owner] = both
		}
	}
	return found
}
