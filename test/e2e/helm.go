// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

const (
	release    = "proxy-operator"
	serving    = "e2e-helm" // namespace of the Proxy
	exit       = "exit"     // its name
	crd        = "proxies.crawl.proxy-operator.io"
	writeEvery = 50 * time.Millisecond
	leastWrite = 20 // an upgrade takes seconds
)

// helm is one of Helm's programs, and the release that it makes.
type helm struct {
	*suite
	name, program, home string

	served  *corev1.Pod // machine of the Proxy, the same from the first installation to the last uninstallation
	changes int
}

// charts installs, changes and removes the chart, with both versions of Helm. The second needs an empty cluster as well, which
// the first leaves if all its checks hold.
func (s *suite) charts(ctx context.Context) {
	home, err := os.MkdirTemp("", "e2e-helm-")
	if err != nil {
		s.check(ctx, "Helm has a folder", func(context.Context) error { return err })
		return
	}
	defer func() { _ = os.RemoveAll(home) }()
	for _, h := range []*helm{
		{suite: s, name: "Helm 3", program: s.options.helm3, home: home},
		{suite: s, name: "Helm 4", program: s.options.helm4, home: home},
	} {
		if !h.story(ctx) {
			return
		}
	}
}

func (h *helm) story(ctx context.Context) bool {
	for _, c := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"installs the chart of an earlier commit: a Proxy becomes Ready and serves", h.install},
		{"helm test passes", h.test},
		{"upgrades to this chart: no write is refused, no proxy replaced, the CRD is the new one", h.upgrade},
		{"rolls back: the proxy serves on", h.rollback},
		{"uninstalls by the policy Retain: Proxy, machine and CRD stay, the rest is gone", h.retain},
		{"installs again: the Proxy has the machine that it had", h.adopt},
		{"uninstalls by the policy Delete, and a paused Proxy holds it up: it says so in time, and removes nothing", h.heldUp},
		{"uninstalls by the policy Delete after that: every Proxy and machine goes, and nothing of the release is left", h.leave},
	} {
		if !h.check(ctx, h.name+": "+c.what, c.do) {
			return false
		}
	}
	return true
}

// run runs Helm, and keeps it from what a user has set up.
func (h *helm) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, h.program, args...) //nolint:gosec // of a flag
	cmd.Env = append(os.Environ(), "HELM_NAMESPACE="+system)
	for _, name := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KUBECACHEDIR"} {
		cmd.Env = append(cmd.Env, name+"="+filepath.Join(h.home, h.name, name))
	}
	return finish(cmd)
}

// imageValues are those of the image that was loaded.
func imageValues(image string) string {
	registry, rest, _ := strings.Cut(image, "/")
	repository, tag, _ := strings.Cut(rest, ":")
	return fmt.Sprintf("image.registry=%s,image.repository=%s,image.tag=%s", registry, repository, tag)
}

func (h *helm) install(ctx context.Context) error {
	if err := h.namespace(ctx, serving); err != nil {
		return err
	}
	err := h.run(ctx, "install", release, h.options.earlier, "--create-namespace", "--wait", "--timeout=2m", "--set="+imageValues(h.options.image))
	if err != nil {
		return err
	}
	if err := h.create(ctx, proxy(serving, exit)); err != nil {
		return err
	}
	if err := h.eventually(ctx, h.settled(serving, 1)); err != nil {
		return err
	}
	if h.served, err = h.machine(ctx, serving, exit); err != nil {
		return err
	}
	return h.same(ctx)
}

func (h *helm) test(ctx context.Context) error { return h.run(ctx, "test", release, "--timeout=2m") }

func (h *helm) upgrade(ctx context.Context) error {
	stop := h.write(ctx)
	err := h.run(ctx, "upgrade", release, h.options.chart, "--reset-then-reuse-values", "--set=replicas=2", "--wait", "--timeout=2m")
	written, refused := stop()
	if err := errors.Join(err, refused); err != nil {
		return err
	}
	h.printf("        %d writes meanwhile", written)
	if written < leastWrite {
		return fmt.Errorf("%d writes are too few to tell", written)
	}
	return errors.Join(h.eventually(ctx, h.available), h.crdIsNew(ctx), h.works(ctx))
}

func (h *helm) rollback(ctx context.Context) error {
	if err := h.run(ctx, "rollback", release, "--wait", "--timeout=2m"); err != nil {
		return err
	}
	return h.works(ctx)
}

func (h *helm) retain(ctx context.Context) error {
	if err := h.run(ctx, "uninstall", release, "--wait", "--timeout=2m"); err != nil {
		return err
	}
	return errors.Join(h.eventually(ctx, h.nothingLeft), h.same(ctx))
}

func (h *helm) adopt(ctx context.Context) error {
	err := h.run(ctx, "install", release, h.options.chart, "--wait", "--timeout=2m", "--set="+imageValues(h.options.image))
	if err != nil {
		return err
	}
	return errors.Join(h.works(ctx), h.crdIsNew(ctx))
}

// heldUp goes the way that docs/install/helm.md tells: after an uninstallation that failed, a value can be changed again once
// the release was rolled back to its newest revision.
func (h *helm) heldUp(ctx context.Context) error {
	set := func(timeout string) error {
		return h.run(ctx, "upgrade", release, h.options.chart, "--reset-then-reuse-values", "--set=uninstall.policy=Delete,uninstall.timeout="+timeout, "--wait", "--timeout=2m")
	}
	if err := errors.Join(set("3s"), h.annotate(ctx, `"true"`)); err != nil {
		return err
	}
	err := h.run(ctx, "uninstall", release, "--wait", "--timeout=2m")
	if want := "after 3s these are left: Proxy " + serving + "/" + exit + " (paused)"; err == nil || !strings.Contains(err.Error(), want) {
		return errors.Join(fmt.Errorf("it doesn't say %q", want), err)
	}
	if err := errors.Join(h.available(ctx), h.same(ctx)); err != nil {
		return err
	}
	return errors.Join(h.run(ctx, "rollback", release, "2", "--wait", "--timeout=2m"), set("2m"))
}

// leave ends the pause, and leaves the cluster as it was before the first installation.
func (h *helm) leave(ctx context.Context) error {
	if err := h.annotate(ctx, "null"); err != nil {
		return err
	}
	if err := h.run(ctx, "uninstall", release, "--wait", "--timeout=150s"); err != nil {
		return err
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: release + "-uninstall"}}
	err := errors.Join(h.settled(metav1.NamespaceAll, 0)(ctx), h.empty(metav1.NamespaceAll)(ctx), h.event(ctx, job, "Job completed"), h.eventually(ctx, h.nothingLeft))
	if err != nil {
		return err
	}
	if err := h.command(ctx, "kubectl", "delete", "crd", crd, "--timeout=60s"); err != nil {
		return err
	}
	return errors.Join(h.remove(ctx, serving), h.remove(ctx, system))
}

// annotate pauses the Proxy, or ends that.
func (h *helm) annotate(ctx context.Context, paused string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.AnnotationPaused, paused)
	return h.kube.Patch(ctx, proxy(serving, exit), client.RawPatch(types.MergePatchType, patch))
}

// works is nil once the operator that is installed now has acted on a change, and the Proxy has the machine that it had. The status
// that an operator before it wrote says nothing of it.
func (h *helm) works(ctx context.Context) error {
	h.changes++
	patch := fmt.Appendf(nil, `{"spec":{"healthCheck":{"interval":"%ds"}}}`, h.changes)
	if err := h.kube.Patch(ctx, proxy(serving, exit), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	return errors.Join(h.eventually(ctx, h.settled(serving, 1)), h.same(ctx))
}

// same looks that the Proxy has the machine that it had, which was never started again, and that requests get through.
func (h *helm) same(ctx context.Context) error {
	p := proxy(serving, exit)
	if err := h.kube.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
		return err
	}
	pod, err := h.machine(ctx, serving, exit)
	if err != nil {
		return err
	}
	if pod.UID != h.served.UID || pod.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s was replaced by %s, or is about to go", h.served.UID, pod.UID)
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.RestartCount > 0 {
			return fmt.Errorf("its container was started again %d times", c.RestartCount)
		}
	}
	return h.ask(ctx, p, "http", http.StatusOK, nil)
}

// write goes on changing the Proxy and having others checked, until it is told to stop; then it tells how often the API server took
// that, and how it refused.
func (h *helm) write(ctx context.Context) (stop func() (int, error)) {
	type result struct {
		written int
		err     error
	}
	stopped, done := make(chan struct{}), make(chan result, 1)
	go func() {
		ticker := h.clock.NewTicker(writeEvery)
		defer ticker.Stop()
		var r result
		defer func() { done <- r }()
		for {
			select {
			case <-stopped:
				return
			case <-ticker.C():
			}
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"example.com/n":"%d"}}}`, r.written)
			r.err = errors.Join(
				h.kube.Patch(ctx, proxy(serving, exit), client.RawPatch(types.MergePatchType, patch)),
				h.kube.Create(ctx, proxy(serving, "another"), client.DryRunAll))
			if r.err != nil {
				return
			}
			r.written += 2
		}
	}()
	return func() (int, error) {
		close(stopped)
		r := <-done
		return r.written, r.err
	}
}

// crdIsNew compares the API server's schema with the one of this tree.
func (h *helm) crdIsNew(ctx context.Context) error {
	objects, err := h.rendered()
	if err != nil {
		return err
	}
	for _, want := range objects {
		if want.GetName() != crd {
			continue
		}
		got := &unstructured.Unstructured{}
		got.SetGroupVersionKind(want.GroupVersionKind())
		if err := h.kube.Get(ctx, client.ObjectKeyFromObject(want), got); err != nil {
			return err
		}
		if !equality.Semantic.DeepEqual(versions(want), versions(got)) {
			return errors.New("the CRD isn't that of this tree")
		}
		return nil
	}
	return fmt.Errorf("%s has no CRD", h.options.manifests)
}

func versions(o *unstructured.Unstructured) any {
	all, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "versions")
	return all
}

// nothingLeft is nil once nothing of a release is left, but for what docs/install/helm.md names: the CRD, and the operator's Lease.
func (h *helm) nothingLeft(ctx context.Context) error {
	own, err := h.names(ctx, "--namespaced=true", "--namespace="+system)
	if err != nil {
		return err
	}
	everywhere, err := h.names(ctx, "--namespaced=false", "--selector=app.kubernetes.io/instance="+release)
	if err != nil {
		return err
	}
	var left []string
	for _, name := range append(own, everywhere...) {
		switch kind, _, _ := strings.Cut(name, "/"); {
		case kind == "event", kind == "event.events.k8s.io", kind == "lease.coordination.k8s.io":
		case name == "serviceaccount/default", name == "configmap/kube-root-ca.crt": // of every namespace
		case name == "customresourcedefinition.apiextensions.k8s.io/"+crd:
		default:
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("these are left: %s", strings.Join(left, ", "))
	}
	return nil
}

// names lists objects of all kinds that are in namespaces, or in none.
func (h *helm) names(ctx context.Context, scope, pick string) ([]string, error) {
	kinds, err := exec.CommandContext(ctx, "kubectl", "api-resources", "--verbs=list", "--output=name", scope).Output()
	if err != nil {
		return nil, fmt.Errorf("list kinds: %w", err)
	}
	list := strings.Join(strings.Fields(string(kinds)), ",")
	all, err := exec.CommandContext(ctx, "kubectl", "get", list, "--output=name", pick).Output() //nolint:gosec // what the API server serves
	if err != nil {
		return nil, fmt.Errorf("list objects: %w", err)
	}
	return strings.Fields(string(all)), nil
}
