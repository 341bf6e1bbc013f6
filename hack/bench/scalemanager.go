// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/controllers"
	"github.com/proxy-operator/proxy-operator/hack/bench/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

// asManager is the first argument with which this program is the operator's manager, with accounts of a cloud in the
// memory of the bench in place of those that a configuration file names. All else is as in cmd.
const asManager = "manager"

const managerWorkers = 3 // as the flag's default

// scaleFlags are those that operator.Manager passes, and where the cloud is.
type scaleFlags struct{ kubeconfig, probes, metrics, cloud string }

// serveAsManager runs until a signal comes, and returns the exit code.
func serveAsManager(args []string) int {
	var f scaleFlags
	flags := flag.NewFlagSet(asManager, flag.ContinueOnError)
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "")
	flags.StringVar(&f.probes, "health-probe-bind-address", "", "")
	flags.StringVar(&f.metrics, "metrics-bind-address", "", "")
	flags.StringVar(&f.cloud, "cloud", "", "")
	_ = flags.String("config", "", "not read")
	for _, name := range []string{"judge-bind-address", "health-deny-cidr"} { // its machines can't be reached
		_ = flags.String(name, "", "not read")
	}
	_ = flags.Bool("metrics-secure", false, "not read")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := f.run(ctx); err != nil {
		progress("manager: %v", err)
		return 1
	}
	return 0
}

func (f *scaleFlags) run(ctx context.Context) error {
	z, err := zap.NewProduction()
	if err != nil {
		return err
	}
	ctrl.SetLogger(zapr.NewLogger(z))
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1 // as controller-runtime's own configuration has it
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, HealthProbeBindAddress: f.probes, Metrics: metricsserver.Options{BindAddress: f.metrics},
		Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {}}},
	})
	if err != nil {
		return fmt.Errorf("set up the manager: %w", err)
	}
	if err := f.wire(ctx, mgr); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("cache", func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("caches are not synced")
		}
		return nil
	}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// wire builds the reconciler as cmd does.
func (f *scaleFlags) wire(ctx context.Context, mgr ctrl.Manager) error {
	uid, err := controllers.ClusterUID(ctx, mgr.GetAPIReader())
	if err != nil {
		return fmt.Errorf("read the UID of namespace kube-system: %w", err)
	}
	own, err := controllers.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	r := &controllers.ProxyReconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("proxy-operator"),
		Providers: own.Measured(f.accounts(), clock.RealClock{}), Installation: providers.InstallationID(string(uid), "default"),
		Clock: clock.RealClock{}, Secrets: &controllers.Secrets{Live: mgr.GetAPIReader(), Metadata: mgr.GetClient()}, Metrics: own,
	}
	r.Guard(managerWorkers)
	return r.SetupWithManager(logr.NewContext(ctx, mgr.GetLogger()), mgr, controllers.Options{MaxConcurrentReconciles: managerWorkers, WatchSecrets: true})
}

// accounts are those of the measurements. Only the one with a quota is limited: what rests is made as fast as can be.
func (f *scaleFlags) accounts() providers.Registry {
	reg := providers.Registry{}
	for _, name := range []string{restAccount, quotaAccount, otherAccount} {
		limits := providers.Limits{CallsPerSecond: 1e6, Burst: 1e6}
		if name == quotaAccount {
			limits = providers.Limits{CallsPerSecond: quotaPerSecond}
		}
		reg[name] = providers.Account{
			Name: name, Type: "bench", Zones: scaleZones(), Limits: limits, Orphans: providers.OrphansReport, Fingerprint: strings.Repeat("0", 8),
			Provider: cloud.NewProvider(name, f.cloud, scaleZones(), providers.CountCall),
		}
	}
	return reg
}
