// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	env     []string // of kubectl
	screen  *screen
}

func newKube(d *demo) *kube {
	env := slices.Concat(os.Environ(), []string{
		"KUBECONFIG=" + d.Cluster.Kubeconfig,
		"KUBECACHEDIR=" + filepath.Join(d.Dir, "kubectl"), // not the user's
		"KUBERC=off",
	})
	return &kube{client: d.Cluster.Client, kubectl: filepath.Join(d.Assets, "kubectl"), root: d.Root, env: env, screen: d.screen}
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
