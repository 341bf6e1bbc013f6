// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

const (
	restartPause = time.Second
	goodbyeLimit = 60 * time.Second
)

// stayUp lets the user try things until Ctrl-C, and then deletes what there is.
func (d *demo) stayUp(ctx context.Context) error {
	if err := d.showCommands(ctx); err != nil {
		return err
	}
	err := d.keepOperator(ctx)
	if !errors.Is(context.Cause(ctx), errInterrupted) {
		return errors.Join(err, context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), goodbyeLimit, fmt.Errorf("not there after %s", goodbyeLimit))
	defer cancel()
	if err := d.sayGoodbye(ctx); err != nil {
		d.fail(err)
	}
	return nil
}

// sayGoodbye deletes whatever the user has left, as a user would. What is to be gone is the instances: Proxies that wait
// for the end of a create, after a kill -9, go with the control plane.
func (d *demo) sayGoodbye(ctx context.Context) error {
	if d.operator.Ended() {
		if err := d.startOperator(ctx); err != nil {
			return err
		}
	}
	if err := d.resumePaused(ctx); err != nil {
		return err
	}
	if err := d.kube.show(ctx, "delete", "--wait=false", "proxies", "--all", "--all-namespaces"); err != nil {
		return err
	}
	if err := d.awaitInstancesGone(ctx); err != nil {
		return err
	}
	d.screen.ok("no process is left, and nothing on disk")
	return nil
}

// resumePaused lets the paused Proxies go: the annotation stops deletions too.
func (d *demo) resumePaused(ctx context.Context) error {
	var all v1alpha1.ProxyList
	if err := d.kube.client.List(ctx, &all); err != nil {
		return fmt.Errorf("list Proxies: %w", err)
	}
	for i := range all.Items {
		p := &all.Items[i]
		if _, paused := p.Annotations[v1alpha1.AnnotationPaused]; !paused {
			continue
		}
		if err := d.kube.show(ctx, "annotate", "--namespace="+p.Namespace, "proxy", p.Name, v1alpha1.AnnotationPaused+"-"); err != nil {
			return err
		}
	}
	return nil
}

// keepOperator starts the operator again whenever it has ended, as a Deployment would.
func (d *demo) keepOperator(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.operator.Done():
		}
		d.screen.note("%v; starting it again", d.operator.How())
		timer := time.NewTimer(restartPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if err := d.startOperator(ctx); err != nil {
			return err
		}
		d.screen.note("the operator is process %d now", d.operator.PID)
	}
}

// showCommands prints what to try.
func (d *demo) showCommands(ctx context.Context) error {
	targets, err := d.targets(ctx)
	if err != nil {
		return err
	}
	d.screen.scene("Your turn", "All of this stays up until you press Ctrl-C here. In another terminal:", "")
	d.screen.block("export KUBECONFIG=" + quote(d.Cluster.Kubeconfig))
	if _, err := exec.LookPath("kubectl"); err != nil {
		d.screen.block("export PATH=$PATH:" + quote(d.Assets) + "   # kubectl isn't in your PATH; this one fits")
	}
	d.suggest("Requests through the proxies, wherever they are now", d.curls(targets)...)
	managed, auth := d.examples()
	d.suggest("The Proxies",
		"kubectl get proxies --watch",
		"kubectl describe proxy "+managed,
		"kubectl events --for=proxy/"+managed,
	)
	d.suggest("Changes (watch them in a third terminal)",
		"kubectl edit proxy "+managed+"   # another spec.port, say",
		"kubectl annotate --overwrite proxy "+managed+" crawl.proxy-operator.io/replace-requested-at=$(date -u +%FT%TZ)",
		"# paused: nothing happens to it, not even deletion",
		"kubectl annotate --overwrite proxy "+managed+" "+v1alpha1.AnnotationPaused+"=true",
		"kubectl annotate proxy "+managed+" "+v1alpha1.AnnotationPaused+"-",
		"kubectl patch secret "+auth+` --type=merge --patch '{"stringData":{"password":"another"}}'   # from then on: -U USER:another`,
		"kubectl delete proxy "+managed,
		"kubectl apply "+quoteAll(d.applied()),
	)
	d.suggest("A proxy that hangs is found and replaced; so is one that is killed",
		"pgrep -fl "+quote(d.StateDir())+"   # the proxies' processes",
		"kill -STOP PID",
	)
	d.suggest("The operator (it is started again when it ends)",
		"tail -f "+quote(d.operator.Log),
		"curl -s "+d.noProxy()+"http://"+d.operator.Metrics+"/metrics | grep ^proxy_operator_ | grep -v _bucket",
		fmt.Sprintf("kill -9 %d", d.operator.PID),
		"ls "+quote(filepath.Join(d.StateDir(), "default"))+"   # the machines: record, user data and log of each",
	)
	d.screen.print("")
	return nil
}

// applied are the samples as kubectl takes them from any folder.
func (d *demo) applied() []string {
	path := d.samples.args[1]
	if !filepath.IsAbs(path) {
		path = filepath.Join(d.Root, path)
	}
	return []string{d.samples.args[0], path}
}

func (d *demo) suggest(title string, commands ...string) {
	d.screen.print("\n%s%s:", indent, title)
	for _, c := range commands {
		d.screen.print("%s  %s", indent, c)
	}
}

// curls ask for the address each time: that of another machine is another one.
func (d *demo) curls(targets []target) []string {
	lines := []string{`at() { kubectl get proxy "$1" -o jsonpath='http://{.status.ip}:{.status.port}'; }`}
	through := func(t target) string { return fmt.Sprintf(`curl %s-x "$(at %s)"%s`, d.noProxy(), t.name, t.login()) }
	for _, t := range targets {
		lines = append(lines, fmt.Sprintf("%s %s", through(t), d.origin.url("http")))
	}
	if len(targets) > 0 {
		t := targets[len(targets)-1]
		lines = append(lines, fmt.Sprintf("%s --cacert %s %s", through(t), quote(d.origin.caFile), d.origin.url("https")))
		lines = append(lines, through(t)+" https://example.com/   # if this machine reaches the world")
	}
	return lines
}

// login is the option with which curl sends the target's credentials.
func (t target) login() string {
	if t.username == "" {
		return ""
	}
	return " -U " + quote(t.username+":"+t.password)
}

// noProxy keeps curl from leaving the proxy aside where the user's environment says so of loopback.
func (d *demo) noProxy() string {
	if os.Getenv("NO_PROXY") == "" && os.Getenv("no_proxy") == "" {
		return ""
	}
	return "--noproxy '' "
}

// examples are the names of a Managed Proxy and of a Secret with credentials.
func (d *demo) examples() (managed, auth string) {
	managed, auth = "NAME", "NAME"
	if p, err := plain(d.samples.proxies); err == nil {
		managed = p.Name
	}
	if _, p, err := secretUsers(d.samples.proxies); err == nil {
		auth = p.Spec.CredentialsSecret()
	}
	return managed, auth
}
