// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	system  = "proxy-operator-system"
	manager = "proxy-operator-controller-manager"
)

// deploy applies the manifests, as a person would.
func (s *suite) deploy(ctx context.Context) bool {
	return s.check(ctx, "the manifests are applied", s.apply) &&
		s.check(ctx, "the operator and its judge are available", func(ctx context.Context) error {
			return s.eventually(ctx, s.available)
		})
}

// undeploy takes the operator away again, as `make undeploy` does.
func (s *suite) undeploy(ctx context.Context) bool {
	return s.check(ctx, "every Proxy is deleted: no machine is left in any namespace", s.deleteProxies) &&
		s.check(ctx, "the manifests are deleted, and nothing of them is left", s.delete)
}

func (s *suite) deleteProxies(ctx context.Context) error {
	all, err := s.proxies(ctx, metav1.NamespaceAll)
	if err != nil {
		return err
	}
	for i := range all {
		if err := client.IgnoreNotFound(s.kube.Delete(ctx, &all[i])); err != nil {
			return err
		}
	}
	if err := s.eventually(ctx, s.settled(metav1.NamespaceAll, 0)); err != nil {
		return err
	}
	return s.eventually(ctx, s.empty(metav1.NamespaceAll))
}

func (s *suite) delete(ctx context.Context) error {
	if err := s.command(ctx, "kubectl", "delete", "--ignore-not-found", "--timeout=60s", "-f", s.options.manifests); err != nil {
		return err
	}
	objects, err := s.rendered()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := s.gone(o)(ctx); err != nil {
			return fmt.Errorf("%s: %w", o.GetKind(), err)
		}
	}
	return nil
}

func (s *suite) loadImage(ctx context.Context) error {
	if err := s.command(ctx, "ctr", "images", "import", s.options.archive); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "ctr", "images", "ls", "-q").Output()
	if err == nil && !strings.Contains(string(out), s.options.image+"\n") {
		err = fmt.Errorf("it has no image %s, but:\n%s", s.options.image, out)
	}
	return err
}

func (s *suite) command(ctx context.Context, name string, args ...string) error {
	return finish(exec.CommandContext(ctx, name, args...))
}

// finish runs a program to its end. What it prints is in the error if it fails.
func finish(cmd *exec.Cmd) error {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, output.String())
	}
	return nil
}

func (s *suite) apply(ctx context.Context) error {
	if err := s.command(ctx, "kubectl", "apply", "--server-side", "-f", s.options.manifests); err != nil {
		return err
	}
	return s.command(ctx, "kubectl", "wait", "--for=condition=Established", "crd/proxies.crawl.proxy-operator.io", "--timeout=30s")
}

// available is nil once every Deployment of the operator's namespace is as wanted.
func (s *suite) available(ctx context.Context) error {
	var all appsv1.DeploymentList
	if err := s.kube.List(ctx, &all, client.InNamespace(system)); err != nil {
		return err
	}
	if len(all.Items) == 0 {
		return errors.New("there is no Deployment")
	}
	for _, d := range all.Items {
		wanted := ptr.Deref(d.Spec.Replicas, 1)
		if st := d.Status; st.ObservedGeneration < d.Generation || st.UpdatedReplicas != wanted || st.AvailableReplicas != wanted || st.Replicas != wanted {
			return fmt.Errorf("%s: %d of %d replicas are available, %d updated, %d in all", d.Name, st.AvailableReplicas, wanted, st.UpdatedReplicas, st.Replicas)
		}
	}
	return nil
}

// managers are the operator's pods that aren't about to end.
func (s *suite) managers(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := s.kube.List(ctx, &pods, client.InNamespace(system), client.MatchingLabels{"control-plane": "controller-manager"}); err != nil {
		return nil, err
	}
	var live []corev1.Pod
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil {
			live = append(live, p)
		}
	}
	return live, nil
}

// rendered reads the manifests.
func (s *suite) rendered() ([]*unstructured.Unstructured, error) {
	file, err := os.Open(s.options.manifests)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	defer func() { _ = file.Close() }()
	var all []*unstructured.Unstructured
	for docs := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		o := &unstructured.Unstructured{}
		switch err := docs.Decode(o); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		all = append(all, o)
	}
}
