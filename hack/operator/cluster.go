// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/hack/cluster/controlplane"
)

// Cluster is a control plane with the CRD of this checkout.
type Cluster struct {
	*controlplane.ControlPlane
	// Config and Client are an administrator's, and not slowed down.
	Config *rest.Config
	Client client.WithWatch
}

// startCluster starts a control plane whose data in dir is thrown away in the end, and installs the CRD. assets are its
// binaries, as of controlplane.Assets. fail is called when the control plane ends by itself. The Cluster is returned also
// with an error as soon as something runs, to be stopped.
func startCluster(ctx context.Context, root, assets, dir string, fail context.CancelCauseFunc) (*Cluster, error) {
	log.SetLogger(logr.Discard())
	plane, err := controlplane.Start(ctx, controlplane.Options{Assets: assets, DataDir: dir, UnsafeNoFsync: true})
	if err != nil {
		return nil, fmt.Errorf("start the control plane: %w", err)
	}
	c := &Cluster{ControlPlane: plane}
	go func() {
		<-plane.Done()
		if err := plane.Err(); err != nil {
			fail(err)
		}
	}()
	if err := c.connect(); err != nil {
		return c, fmt.Errorf("connect to the control plane: %w", err)
	}
	crds := envtest.CRDInstallOptions{Paths: []string{filepath.Join(root, "config", "crd", "bases")}, ErrorIfPathMissing: true}
	if _, err := envtest.InstallCRDs(c.Config, crds); err != nil {
		return c, fmt.Errorf("install the CRD: %w", err)
	}
	return c, nil
}

// IsReady reports whether the operator says so of the spec as it is now.
func IsReady(p *v1alpha1.Proxy) bool {
	return p.DeletionTimestamp.IsZero() && p.Status.ObservedGeneration == p.Generation &&
		meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
}

func (c *Cluster) connect() (err error) {
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return err
	}
	c.Config.QPS = -1
	c.Config.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	c.Client, err = client.NewWithWatch(c.Config, client.Options{Scheme: scheme})
	return err
}
