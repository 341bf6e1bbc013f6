// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/controllers"
	"github.com/proxy-operator/proxy-operator/providers"
	"github.com/proxy-operator/proxy-operator/providers/kubernetes"
	"github.com/proxy-operator/proxy-operator/providers/local"
)

// managerOptions are the flags of the subcommand manager.
type managerOptions struct {
	config                  string
	instance                string
	clusterID               string
	watchNamespaces         []string
	watchNamespacesSet      bool // an empty list was given, not left out
	secretWatch             bool
	proxyImage              string
	maxConcurrentReconciles int

	leaderElect             bool
	leaderElectionNamespace string
	operatorNamespace       string

	health healthOptions

	metricsAddress  string
	metricsSecure   bool
	metricsCertPath string
	probeAddress    string

	logFormat string
	logLevel  string
}

func managerCommand() *cobra.Command {
	var o managerOptions
	cmd := &cobra.Command{
		Use:   "manager",
		Short: "Run the operator",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.watchNamespacesSet = cmd.Flags().Changed("watch-namespaces")
			return o.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "file with the accounts that Proxies name in spec.provider; without it only mode External works")
	f.StringVar(&o.instance, "instance", "default", "name of this operator among several in one cluster, each of which must watch namespaces of its own; part of the identity of every machine, so never change it while machines run")
	f.StringVar(&o.clusterID, "cluster-id", "", "identity of the cluster; by default the UID of its kube-system namespace")
	f.StringSliceVar(&o.watchNamespaces, "watch-namespaces", nil, "namespaces to watch, with commas between; all by default")
	f.BoolVar(&o.secretWatch, "secret-watch", true, "watch the metadata of Secrets, so that a rotation is acted on at once; if false it is seen within a minute, and get on Secrets is all that is needed")
	f.StringVar(&o.proxyImage, "proxy-image", ownImage(), "image of this program, which pods of accounts of type kubernetes run as forward proxies unless the account's configuration or a Proxy names another")
	f.IntVar(&o.maxConcurrentReconciles, "max-concurrent-reconciles", 3, "how many Proxies are worked on at a time")
	o.health.flags(f)
	f.BoolVar(&o.leaderElect, "leader-elect", false, "wait for a lease before working; needed when more than one replica runs")
	f.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "", "namespace of the lease; by default the pod's")
	f.StringVar(&o.operatorNamespace, "operator-namespace", "", "namespace for the operator's own ConfigMaps, in which a person confirms that many orphans at once may be deleted; by default the pod's")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", `address of the metrics endpoint; "0" turns it off`)
	f.BoolVar(&o.metricsSecure, "metrics-secure", true, "serve metrics by HTTPS to those whom the API server lets in; plain HTTP to all if false")
	f.StringVar(&o.metricsCertPath, "metrics-cert-path", "", "folder with tls.crt and tls.key of the metrics endpoint; self-signed by default")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", `address of /healthz and /readyz; "0" turns them off`)
	f.StringVar(&o.logFormat, "log-format", "json", "json or console")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info or error")
	f.AddGoFlag(flag.CommandLine.Lookup(config.KubeconfigFlagName))
	return cmd
}

func (o *managerOptions) run(ctx context.Context) error {
	log, err := o.logger()
	if err != nil {
		return err
	}
	if err := o.validate(ctx); err != nil {
		return err
	}
	cfg, noCluster := ctrl.GetConfig() // before there is a logger: it logs what it returns, with a stack
	registry, err := o.accounts(log, cfg)
	if err != nil {
		return err // told of first: the file can be mended without a cluster
	}
	if noCluster != nil {
		return fmt.Errorf("find the cluster: %w; set KUBECONFIG or --kubeconfig, or run in a pod", noCluster)
	}
	logThrough(log)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(cfg, o.managerConfig(scheme))
	if err != nil {
		return fmt.Errorf("set up the manager: %w", err)
	}
	if err := o.setup(ctx, mgr, registry); err != nil {
		return err
	}
	log.Info("starting", "version", version, "accounts", registry.Names(), "namespaces", orAll(o.watchNamespaces), "targets", o.health.judged())
	for _, refusal := range o.refusals(ctx, lookFirst, mgr.GetAPIReader()) {
		log.Info(refusal + " The manager waits for it, and works on nothing until then.")
	}
	if err := untilStopped(ctx, mgr); err != nil {
		return told(err, o.refusals(context.WithoutCancel(ctx), lookLast, mgr.GetAPIReader()))
	}
	return nil
}

// stopLimit is longer than the manager gives its workers, and shorter than a pod is given.
const stopLimit = 25 * time.Second

// untilStopped runs the manager. One whose caches never synced, for want of rights, doesn't end when it is told to
// (controller-runtime v0.25.2, runnable_group.go); nothing of ours runs in it, so that it can be left.
func untilStopped(ctx context.Context, mgr ctrl.Manager) error {
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-clock.RealClock{}.After(stopLimit):
		return fmt.Errorf("the manager did not stop within %s; left it", stopLimit)
	}
}

func orAll(namespaces []string) string {
	if len(namespaces) == 0 {
		return "all"
	}
	return strings.Join(namespaces, ", ")
}

// accounts reads the configuration file. Without one there are no accounts, and Managed Proxies say so. cluster may be nil:
// then the file is only checked.
func (o *managerOptions) accounts(log logr.Logger, cluster *rest.Config) (providers.Registry, error) {
	if o.config == "" {
		return providers.Registry{}, nil
	}
	data, err := os.ReadFile(filepath.Clean(o.config))
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the own binary: %w", err)
	}
	reg, err := providers.ParseConfig(data, map[string]providers.Factory{
		"local": local.Factory(local.Options{Binary: binary, StateDir: localState(), Clock: clock.RealClock{}, Log: log.WithName("local")}),
		"kubernetes": kubernetes.Factory(kubernetes.Options{
			Cluster: cluster, Namespaces: o.watchNamespaces, Image: o.proxyImage, Clock: clock.RealClock{}, Log: log.WithName("kubernetes"),
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("--config=%s: %w", o.config, err)
	}
	return reg, nil
}

// ownImage is where the image of this very version is published.
func ownImage() string {
	tag := version
	if tag == "dev" {
		tag = "latest"
	}
	return "ghcr.io/proxy-operator/proxy-operator:" + tag
}

// localState is where accounts of type local keep their instances if the configuration doesn't say; empty, so that it
// must, for a user without a home.
func localState() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "proxy-operator", "local")
}

// setup builds the reconciler and its surroundings in the manager.
func (o *managerOptions) setup(ctx context.Context, mgr ctrl.Manager, registry providers.Registry) error {
	installed, err := installation(ctx, mgr.GetAPIReader(), o.clusterID, o.instance)
	if err != nil {
		return err
	}
	own, err := controllers.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := metrics.Registry.Register(controllers.NewFleetCollector(mgr.GetCache())); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	secrets := &controllers.Secrets{Live: mgr.GetAPIReader()}
	if o.secretWatch {
		secrets.Metadata = mgr.GetClient()
	}
	r := &controllers.ProxyReconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("proxy-operator"),
		Providers: own.Measured(registry, clock.RealClock{}), Installation: installed,
		Clock: clock.RealClock{}, Secrets: secrets, Metrics: own,
	}
	if err := metrics.Registry.Register(controllers.NewGuardCollector(r.Guard(o.maxConcurrentReconciles))); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := metrics.Registry.Register(r.BudgetCollector()); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := o.health.addTo(ctx, mgr, r); err != nil {
		return fmt.Errorf("set up the health engine: %w", err)
	}
	if err := o.addCollector(mgr, r); err != nil {
		return fmt.Errorf("set up the orphan collector: %w", err)
	}
	opts := controllers.Options{MaxConcurrentReconciles: o.maxConcurrentReconciles, WatchSecrets: o.secretWatch}
	if err := r.SetupWithManager(ctx, mgr, opts); err != nil {
		return fmt.Errorf("set up the controller: %w", err)
	}
	return errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("cache", cacheSynced(mgr)))
}

// cacheSynced makes readiness mean that the manager sees the cluster.
func cacheSynced(mgr ctrl.Manager) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("caches are not synced")
		}
		return nil
	}
}
