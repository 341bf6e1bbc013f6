// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

const (
	account    = "kubernetes" // of config/manager/operator.yaml
	labelProxy = "crawl.proxy-operator.io/proxy"
)

// ours picks the machines' pods and Secrets.
func ours() client.MatchingLabels {
	return client.MatchingLabels{"app.kubernetes.io/managed-by": "proxy-operator"}
}

// namespace makes one that lets in only pods which keep to the strictest standard.
func (s *suite) namespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	return client.IgnoreAlreadyExists(s.kube.Create(ctx, ns))
}

func proxy(namespace, name string, change ...func(*v1alpha1.ProxySpec)) *v1alpha1.Proxy {
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.ProxySpec{Mode: v1alpha1.ModeManaged, Provider: account},
	}
	for _, c := range change {
		c(&p.Spec)
	}
	return p
}

func cloudInitFrom(secret string) func(*v1alpha1.ProxySpec) {
	return func(spec *v1alpha1.ProxySpec) {
		spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: secret}}
	}
}

func authFrom(secret string) func(*v1alpha1.ProxySpec) {
	return func(spec *v1alpha1.ProxySpec) {
		spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: secret}}
	}
}

func (s *suite) create(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := s.kube.Create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// proxies lists those of a namespace.
func (s *suite) proxies(ctx context.Context, namespace string) ([]v1alpha1.Proxy, error) {
	var list v1alpha1.ProxyList
	err := s.kube.List(ctx, &list, client.InNamespace(namespace))
	return list.Items, err
}

// machines lists the pods of a namespace that are Proxies' machines.
func (s *suite) machines(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := s.kube.List(ctx, &pods, client.InNamespace(namespace), ours())
	return pods.Items, err
}

// machine is the one pod of a Proxy.
func (s *suite) machine(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pods, err := s.machines(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var found *corev1.Pod
	for i := range pods {
		switch {
		case pods[i].Labels[labelProxy] != name:
		case found != nil:
			return nil, fmt.Errorf("%s has two pods, %s and %s", name, found.Name, pods[i].Name)
		default:
			found = &pods[i]
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%s has no pod", name)
	}
	return found, nil
}

func isReady(p *v1alpha1.Proxy) bool {
	return p.DeletionTimestamp.IsZero() && p.Status.ObservedGeneration == p.Generation &&
		meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
}

// settled is nil when so many Proxies are Ready, each by the pod that it has, and there are no other machines.
func (s *suite) settled(namespace string, wanted int) func(context.Context) error {
	return func(ctx context.Context) error {
		all, err := s.proxies(ctx, namespace)
		if err != nil {
			return err
		}
		pods, err := s.machines(ctx, namespace)
		if err != nil {
			return err
		}
		if len(all) != wanted || len(pods) != wanted {
			return fmt.Errorf("%d Proxies and %d pods, not %d each", len(all), len(pods), wanted)
		}
		byProxy := map[string]corev1.Pod{}
		for _, pod := range pods {
			byProxy[pod.Labels[labelProxy]] = pod
		}
		for i := range all {
			if err := fits(&all[i], byProxy[all[i].Name]); err != nil {
				return err
			}
		}
		return nil
	}
}

func fits(p *v1alpha1.Proxy, pod corev1.Pod) error {
	switch {
	case !isReady(p):
		return fmt.Errorf("%s isn't ready: %s", p.Name, conditions(p))
	case pod.Name == "" || pod.DeletionTimestamp != nil:
		return fmt.Errorf("%s has no pod that stays", p.Name)
	case p.Status.IP != pod.Status.PodIP:
		return fmt.Errorf("%s has address %s, and its pod %s", p.Name, p.Status.IP, pod.Status.PodIP)
	case p.Status.ExitIP != pod.Status.PodIP:
		return fmt.Errorf("%s has exit address %q, and its pod %s", p.Name, p.Status.ExitIP, pod.Status.PodIP)
	}
	return nil
}

func conditions(p *v1alpha1.Proxy) string {
	var all []string
	for _, c := range p.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s (%s: %s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, ", ")
}

// says is nil once a condition of the Proxy contains the text.
func (s *suite) says(namespace, name, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		p := proxy(namespace, name)
		if err := s.kube.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if said := conditions(p); !strings.Contains(said, text) {
			return fmt.Errorf("%s doesn't say %q, but: %s", name, text, said)
		}
		return nil
	}
}

// event is nil once an Event about the object contains the text.
func (s *suite) event(ctx context.Context, o client.Object, text string) error {
	var all eventsv1.EventList
	if err := s.kube.List(ctx, &all, client.InNamespace(o.GetNamespace())); err != nil {
		return err
	}
	for _, e := range all.Items {
		if e.Regarding.Name == o.GetName() && strings.Contains(e.Note, text) {
			return nil
		}
	}
	return fmt.Errorf("no Event about %s says %q", o.GetName(), text)
}

// gone is nil once the object isn't there any more.
func (s *suite) gone(o client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		err := s.kube.Get(ctx, client.ObjectKeyFromObject(o), o)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("%s is still there, with finalizers %v", o.GetName(), o.GetFinalizers())
	}
}

// empty is nil once the namespace has no machine and no Secret of one.
func (s *suite) empty(namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.machines(ctx, namespace)
		if err != nil {
			return err
		}
		var secrets corev1.SecretList
		if err := s.kube.List(ctx, &secrets, client.InNamespace(namespace), ours()); err != nil {
			return err
		}
		if len(pods)+len(secrets.Items) > 0 {
			return fmt.Errorf("%d pods and %d Secrets are left", len(pods), len(secrets.Items))
		}
		return nil
	}
}

// diagnose shows what there is, after a check that failed.
func (s *suite) diagnose(ctx context.Context) {
	var proxies v1alpha1.ProxyList
	var pods corev1.PodList
	if err := errors.Join(s.kube.List(ctx, &proxies), s.kube.List(ctx, &pods)); err != nil {
		s.printf("%s", indent(err.Error())) // there may be no CRD
	}
	shown := 0
	for i := range proxies.Items {
		if p := &proxies.Items[i]; !isReady(p) && shown < 5 {
			shown++
			s.printf("    Proxy %s/%s: %s", p.Namespace, p.Name, conditions(p))
		}
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			s.printf("    Pod %s/%s: %s %s %v", pod.Namespace, pod.Name, pod.Status.Phase, pod.Status.Message, pod.Status.ContainerStatuses)
		}
	}
	for _, pod := range pods.Items {
		if pod.Namespace != system {
			continue
		}
		text, err := s.typed.CoreV1().Pods(system).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: ptr.To[int64](12)}).DoRaw(ctx)
		s.printf("    log of %s:\n%s", pod.Name, indent(string(text)+errorText(err)))
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func indent(text string) string {
	return "      " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n      ")
}
