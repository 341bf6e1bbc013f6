// SPDX-License-Identifier: Apache-2.0

// E2e proves the operator on a real node, from outside: it deploys the image as `make deploy` does, makes Proxies whose
// machines are pods, sends traffic through them, breaks what can break, and reads the API server's audit log. Then it takes all of
// that away, and installs, upgrades and uninstalls the chart with Helm 3 and Helm 4. It runs inside the node of hack/cluster, which
// `make e2e` starts:
//
//	make e2e
//	make e2e E2EFLAGS=-only=helm
//
// Its last line says how many checks there were and how many failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// options are the flags.
type options struct {
	archive    string // of the operator's image
	image      string // its name
	manifests  string // what `make deploy` would apply
	exceptions string // rights that needn't be used
	auditLog   string
	helm3      string // Helm's programs
	helm4      string
	chart      string // of this tree
	earlier    string // of an earlier commit, under a lower version
	only       string // empty: all
	short      bool
}

const onlyHelm = "helm"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		_, _ = fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	var o options
	flags := flag.NewFlagSet("e2e", flag.ContinueOnError)
	flags.StringVar(&o.archive, "archive", "bin/e2e/image.tar", "the operator's image")
	flags.StringVar(&o.image, "image", "ghcr.io/proxy-operator/proxy-operator:e2e", "its name")
	flags.StringVar(&o.manifests, "manifests", "bin/e2e/manifests.yaml", "what is to be deployed")
	flags.StringVar(&o.exceptions, "exceptions", "test/e2e/unused-rights.txt", "rights that needn't be used, each with its reason")
	flags.StringVar(&o.auditLog, "audit-log", filepath.Join(os.Getenv("NODE_LOGS"), "audit.log"), "the API server's audit log")
	flags.StringVar(&o.helm3, "helm3", "bin/helm3", "the program of Helm 3")
	flags.StringVar(&o.helm4, "helm4", "bin/helm4", "the program of Helm 4")
	flags.StringVar(&o.chart, "chart", "charts/proxy-operator", "the chart")
	flags.StringVar(&o.earlier, "earlier-chart", "bin/e2e/proxy-operator-0.0.1.tgz", "the chart to upgrade from")
	flags.StringVar(&o.only, "only", "", "helm: the checks of the chart alone")
	flags.BoolVar(&o.short, "short", false, "leave out the churn")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.only != "" && o.only != onlyHelm {
		return fmt.Errorf("-only=%s: write helm, or leave it out", o.only)
	}
	s, err := newSuite(o, stdout)
	if err != nil {
		return err
	}
	s.run(ctx)
	s.printf("e2e: %d checks, %d failed", s.checks, s.failed)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if s.failed > 0 {
		return errors.New("not all checks held")
	}
	return nil
}

func newSuite(o options, out io.Writer) (*suite, error) {
	log.SetLogger(logr.Discard())
	s := &suite{options: o, out: out, clock: clock.RealClock{}}
	var err error
	if s.config, err = clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")); err != nil {
		return nil, fmt.Errorf("find the node: %w; start this by `make e2e`", err)
	}
	s.config.QPS = -1
	s.config.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	if s.kube, err = client.NewWithWatch(s.config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("connect to the node: %w", err)
	}
	s.typed, err = kubernetes.NewForConfig(s.config)
	return s, err
}

// run runs all checks. Helm's begin where nothing is installed.
func (s *suite) run(ctx context.Context) {
	if !s.check(ctx, "the image is loaded into containerd", s.loadImage) {
		return
	}
	if s.options.only == onlyHelm {
		s.check(ctx, originAnswers, s.startOrigin)
	} else if !s.manifests(ctx) {
		return
	}
	s.charts(ctx)
}

// manifests are the checks of what `make deploy` applies. Without a working operator the rest says nothing.
func (s *suite) manifests(ctx context.Context) bool {
	if !s.deploy(ctx) {
		return false
	}
	full := s.check(ctx, "a ResourceQuota that is reached is told of", s.reachQuota)
	s.fleet(ctx)
	s.troubles(ctx)
	if full {
		s.checkWithin(ctx, healsWithin, "a ResourceQuota that was raised is noticed", s.quotaHeals)
	}
	s.outages(ctx)
	if !s.options.short {
		s.churn(ctx)
	}
	s.check(ctx, "metrics are shown to whom the API server lets, and to nobody else", s.metrics)
	s.rights(ctx)
	return s.undeploy(ctx)
}
