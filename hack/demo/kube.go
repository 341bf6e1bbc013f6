// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/child"
)

// namespace is where a user who names none puts things.
const namespace = "default"

// kube speaks to the control plane: with kubectl where the user is to see it, and with a client where it must be quick.
type kube struct {
	client  client.Client
	kubectl string
	root    string   // of the checkout, where kubectl runs
	env     []string // of kubectl and the operator
	screen  *screen
}

func newKube(d *demo) (*kube, error) {
	log.SetLogger(logr.Discard())
	cfg, err := clientcmd.BuildConfigFromFlags("", d.plane.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.QPS = -1
	cfg.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the control plane: %w", err)
	}
	env := slices.Concat(os.Environ(), []string{
		"KUBECONFIG=" + d.plane.Kubeconfig,
		"KUBECACHEDIR=" + filepath.Join(d.scratch.Dir, "kubectl"), // not the user's
		"KUBERC=off",
	})
	return &kube{client: c, kubectl: filepath.Join(d.assets, "kubectl"), root: d.root, env: env, screen: d.screen}, nil
}

// run runs kubectl and returns what it prints.
func (k *kube) run(ctx context.Context, stdin string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, k.kubectl, args...)
	cmd.Dir = k.root
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = k.env, strings.NewReader(stdin), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demo
	cmd.WaitDelay = 5 * time.Second
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return "", fmt.Errorf("kubectl %s: %w", args[0], context.Cause(ctx))
	case err != nil:
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, child.Tail(stderr.String(), 10))
	}
	return stdout.String(), nil
}

// show runs kubectl for the user to see.
func (k *kube) show(ctx context.Context, args ...string) error {
	k.screen.command("kubectl " + quoteAll(args))
	text, err := k.run(ctx, "", args...)
	if err != nil {
		return err
	}
	k.screen.block(text)
	return nil
}

// proxies lists all Proxies by name.
func (k *kube) proxies(ctx context.Context) ([]v1alpha1.Proxy, error) {
	var list v1alpha1.ProxyList
	if err := k.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Proxies: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Proxy) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// isReady reports whether the operator says so of the spec as it is now.
func isReady(p *v1alpha1.Proxy) bool {
	return p.DeletionTimestamp.IsZero() && p.Status.ObservedGeneration == p.Generation &&
		meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
}

// notReady is what the operator says of a Proxy that isn't Ready.
func notReady(p *v1alpha1.Proxy) string {
	for _, kind := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil {
			return fmt.Sprintf("%s: %s: %s", p.Name, c.Reason, c.Message)
		}
	}
	return p.Name + ": no status yet"
}

// quoteAll writes arguments as one types them in a shell.
func quoteAll(args []string) string {
	quoted := make([]string, 0, len(args))
	for _, a := range args {
		quoted = append(quoted, quote(a))
	}
	return strings.Join(quoted, " ")
}

func quote(arg string) string {
	if arg != "" && !strings.ContainsFunc(arg, func(r rune) bool {
		return !strings.ContainsRune("-_=+:,./@%", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
