// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/controllers"
	"github.com/proxy-operator/proxy-operator/internal/hooks"
	"github.com/proxy-operator/proxy-operator/providers"
)

func uninstallCommand() *cobra.Command {
	var o hooks.Uninstall
	var policy, instance, clusterID, lease string
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Do what must be done before the operator is removed: delete its Proxies, or look that none would be lost",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o.Policy = hooks.Policy(policy)
			if o.Policy != hooks.Retain && o.Policy != hooks.Delete {
				return fmt.Errorf("--policy=%s: write Retain or Delete", policy)
			}
			if o.Timeout <= 0 {
				return fmt.Errorf("--timeout=%s: write more than 0", o.Timeout)
			}
			watched := managerOptions{watchNamespaces: o.Namespaces, watchNamespacesSet: cmd.Flags().Changed("watch-namespaces")}
			if err := watched.validateNamespaces(); err != nil {
				return err
			}
			if lease != "" {
				if o.Lease, err = parseLease(lease); err != nil {
					return err
				}
			}
			o.Log = zap.New(zap.JSONEncoder())
			logThrough(o.Log)
			if o.Client, err = clusterClient(); err != nil {
				return err
			}
			o.Other = controllers.OtherInstallation
			o.Installation = func(ctx context.Context) (string, error) { return installation(ctx, o.Client, clusterID, instance) }
			o.Clock = clock.RealClock{}
			return o.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&policy, "policy", string(hooks.Retain), "Retain: fail if there is a Proxy, as the CRD is about to go; Delete: delete the Proxies and wait until the operator has removed their machines")
	f.StringSliceVar(&o.Namespaces, "watch-namespaces", nil, "namespaces that the operator watches, with commas between; all by default")
	f.StringVar(&instance, "instance", "default", "the operator's --instance: Delete leaves Proxies alone whose machines are another one's")
	f.StringVar(&clusterID, "cluster-id", "", "the operator's --cluster-id; by default the UID of the cluster's kube-system namespace")
	f.BoolVar(&o.CRDs, "with-crds", false, "the CRD is about to go too: Delete fails, before it deletes anything, if there is a Proxy of another operator")
	f.StringVar(&lease, "lease", "", "NAMESPACE/NAME of the leader's lease, by which Delete tells that no operator works")
	f.DurationVar(&o.Timeout, "timeout", 4*time.Minute, "how long to wait until all are gone")
	f.AddGoFlag(flag.CommandLine.Lookup(config.KubeconfigFlagName))
	return cmd
}

func checkCommand() *cobra.Command {
	var o hooks.Check
	var lease string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Find out whether an installed operator works",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if lease == "" && len(o.URLs) == 0 {
				return errors.New("there is nothing to look at: name a --lease or a --url")
			}
			if lease != "" {
				if o.Lease, err = parseLease(lease); err != nil {
					return err
				}
				if o.Client, err = clusterClient(); err != nil {
					return err
				}
			}
			o.Clock = clock.RealClock{}
			return o.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&lease, "lease", "", "NAMESPACE/NAME of the leader's lease, which must be renewed")
	f.StringSliceVar(&o.URLs, "url", nil, "URL that must answer 200; may be given several times")
	f.DurationVar(&o.Timeout, "timeout", time.Minute, "how long to wait until all is well")
	f.AddGoFlag(flag.CommandLine.Lookup(config.KubeconfigFlagName))
	return cmd
}

func parseLease(lease string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(lease, "/")
	if !ok {
		return types.NamespacedName{}, fmt.Errorf("--lease=%s: write NAMESPACE/NAME", lease)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// installation is that of the operator with these flags; without a clusterID the cluster is asked for its own.
func installation(ctx context.Context, reader client.Reader, clusterID, instance string) (string, error) {
	if clusterID == "" {
		uid, err := controllers.ClusterUID(ctx, reader)
		if err != nil {
			return "", fmt.Errorf("read the UID of namespace kube-system: %w; allow it, or set --cluster-id", err)
		}
		clusterID = string(uid)
	}
	return providers.InstallationID(clusterID, instance), nil
}

// clusterClient reads and writes without a cache.
func clusterClient() (client.Client, error) {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w; set KUBECONFIG or --kubeconfig, or run in a pod", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(cfg, client.Options{Scheme: scheme})
}
