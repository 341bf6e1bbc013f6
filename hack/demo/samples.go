// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/child"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

const (
	readyLimit    = 60 * time.Second // for Proxies; they take a second or two
	externalLimit = 20 * time.Second
	externalGrace = 5 * time.Second
)

// samples are config/samples as the demo applies them.
type samples struct {
	args      []string // of kubectl apply and delete: -k FOLDER, or -f FILE if they had to be changed
	manifests string
	proxies   []v1alpha1.Proxy
}

// applySamples plays the user who has read the README.
func (d *demo) applySamples(ctx context.Context) error {
	d.screen.scene("Proxies from config/samples",
		"Two Managed, one with cloud-init from a Secret, one that asks for a password, one with a health check of its own, and",
		"one External, which points at a proxy that already runs: the demo starts that one by hand.", "")
	if err := d.readSamples(ctx); err != nil {
		return err
	}
	if err := d.startExternal(ctx); err != nil {
		return err
	}
	started := time.Now()
	if err := d.kube.show(ctx, append([]string{"apply"}, d.samples.args...)...); err != nil {
		return err
	}
	var names []string
	for _, p := range d.samples.proxies {
		names = append(names, p.Name)
	}
	if err := d.awaitReady(ctx, names); err != nil {
		return err
	}
	d.screen.print("")
	if err := d.kube.show(ctx, "get", "proxies"); err != nil {
		return err
	}
	d.screen.print("")
	d.screen.ok("%d of %d Proxies are Ready %s", len(names), len(names), took(started))
	return nil
}

func (d *demo) readSamples(ctx context.Context) (err error) {
	folder := filepath.Join("config", "samples")
	d.samples.args = []string{"-k", folder}
	if d.samples.manifests, err = d.kube.run(ctx, "", "kustomize", filepath.Join(d.Root, folder)); err != nil {
		return err
	}
	d.samples.proxies, err = decodeProxies(d.samples.manifests)
	return err
}

// decodeProxies returns the Proxies of a file of manifests.
func decodeProxies(manifests string) ([]v1alpha1.Proxy, error) {
	var proxies []v1alpha1.Proxy
	for doc := range strings.SplitSeq(manifests, "\n---\n") {
		var p v1alpha1.Proxy
		if err := yaml.Unmarshal([]byte(doc), &p); err != nil {
			return nil, fmt.Errorf("decode samples: %w", err)
		}
		if p.Kind == "Proxy" {
			proxies = append(proxies, p)
		}
	}
	if len(proxies) == 0 {
		return nil, errors.New("decode samples: there are no Proxies in config/samples")
	}
	return proxies, nil
}

// startExternal starts what the External sample points at, elsewhere if that place is taken.
func (d *demo) startExternal(ctx context.Context) error {
	p, at, err := external(d.samples.proxies)
	if err != nil {
		return err
	}
	listen := at
	if taken(at) {
		listen = netip.AddrPortFrom(at.Addr(), 0)
	}
	ready := filepath.Join(d.Dir, "external.json")
	d.external, err = child.Start(child.Command{
		Name: "the proxy of " + p.Name, Path: d.Binary, Env: []string{}, Log: filepath.Join(d.Dir, "external.log"),
		Args: []string{"forward-proxy", "--listen=" + listen.String(), "--ready-file=" + ready},
	})
	if err != nil {
		return err
	}
	d.onAbandon(abandon(d.external))
	var got netip.AddrPort
	err = d.until(ctx, d.external.Name(), externalLimit, func(context.Context) (bool, string) {
		if d.external.Ended() {
			return true, ""
		}
		got, err = readReady(ready)
		return err == nil, "it isn't listening yet"
	})
	if err == nil && d.external.Ended() {
		err = d.external.How()
	}
	if err != nil {
		return err
	}
	d.endpoint = got
	if got == at {
		d.screen.command(fmt.Sprintf("bin/proxy-operator forward-proxy --listen=%s &", got))
		return nil
	}
	d.screen.note("%s, where %s points, is taken by another program: this run takes %s instead", at, p.Name, got)
	d.screen.command(fmt.Sprintf("bin/proxy-operator forward-proxy --listen=%s &", got))
	return d.pointElsewhere(p.Name, got)
}

// external finds the External sample and the place that it points at.
func external(proxies []v1alpha1.Proxy) (*v1alpha1.Proxy, netip.AddrPort, error) {
	for i := range proxies {
		p := &proxies[i]
		if p.Spec.Mode != v1alpha1.ModeExternal {
			continue
		}
		addr, err := netip.ParseAddr(p.Spec.Endpoint.Host)
		if err != nil || !addr.IsLoopback() || p.Spec.Endpoint.Port < 1 || p.Spec.Endpoint.Port > 65535 {
			return nil, netip.AddrPort{}, fmt.Errorf("sample %s: spec.endpoint must be a loopback address and a port, where the demo can start a proxy", p.Name)
		}
		return p, netip.AddrPortFrom(addr, uint16(p.Spec.Endpoint.Port)), nil // #nosec G115 -- its range is checked above
	}
	return nil, netip.AddrPort{}, errors.New("there is no Proxy of mode External in config/samples")
}

func taken(at netip.AddrPort) bool {
	l, err := net.Listen("tcp", at.String()) //nolint:noctx // a listen on loopback never waits
	if err == nil {
		err = l.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

func readReady(path string) (netip.AddrPort, error) {
	raw, err := os.ReadFile(path) // #nosec G304 -- in the demo's folder
	if err != nil {
		return netip.AddrPort{}, err
	}
	var ready struct {
		Address string `json:"address"`
		Port    int    `json:"port"`
	}
	if err := json.Unmarshal(raw, &ready); err != nil {
		return netip.AddrPort{}, err
	}
	return netip.ParseAddrPort(net.JoinHostPort(ready.Address, strconv.Itoa(ready.Port)))
}

// pointElsewhere has the samples applied from a file in which the External one points at another port.
func (d *demo) pointElsewhere(name string, at netip.AddrPort) error {
	text, err := withPort(d.samples.manifests, name, int64(at.Port()))
	if err != nil {
		return err
	}
	file := filepath.Join(d.Dir, "samples.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write samples: %w", err)
	}
	d.samples.args = []string{"-f", file}
	return nil
}

// withPort returns the manifests with another spec.endpoint.port of the named Proxy.
func withPort(manifests, proxy string, port int64) (string, error) {
	docs := strings.Split(manifests, "\n---\n")
	for i, doc := range docs {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
			return "", fmt.Errorf("decode samples: %w", err)
		}
		metadata, _ := object["metadata"].(map[string]any)
		spec, _ := object["spec"].(map[string]any)
		endpoint, _ := spec["endpoint"].(map[string]any)
		if object["kind"] != "Proxy" || metadata["name"] != proxy || endpoint == nil {
			continue
		}
		endpoint["port"] = port
		text, err := yaml.Marshal(object)
		if err != nil {
			return "", fmt.Errorf("encode samples: %w", err)
		}
		docs[i] = strings.TrimSuffix(string(text), "\n")
		return strings.Join(docs, "\n---\n"), nil
	}
	return "", fmt.Errorf("there is no Proxy %s with an endpoint in config/samples", proxy)
}

// awaitReady returns when all the named Proxies are Ready.
func (d *demo) awaitReady(ctx context.Context, names []string) error {
	return d.awaitProxies(ctx, "Ready Proxies", names, func(p *v1alpha1.Proxy) (bool, string) { return operator.IsReady(p), notReady(p) })
}

// awaitProxies returns when good says so of each of the named Proxies; else it says what is the matter.
func (d *demo) awaitProxies(ctx context.Context, what string, names []string, good func(*v1alpha1.Proxy) (bool, string)) error {
	return d.until(ctx, what, readyLimit, func(ctx context.Context) (bool, string) {
		proxies, err := d.kube.proxies(ctx)
		if err != nil {
			return false, cause(err)
		}
		left := map[string]string{}
		for _, name := range names {
			left[name] = name + ": isn't there"
		}
		for i := range proxies {
			p := &proxies[i]
			if _, asked := left[p.Name]; !asked {
				continue
			}
			ok, state := good(p)
			left[p.Name] = state
			if ok {
				delete(left, p.Name)
				d.tally.isReady(p.Name)
			}
		}
		return len(left) == 0, fmt.Sprintf("%d of %d; %s", len(names)-len(left), len(names), firstOf(left))
	})
}

// firstOf is the first of the texts in the order of their keys.
func firstOf(texts map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		return texts[key]
	}
	return ""
}
