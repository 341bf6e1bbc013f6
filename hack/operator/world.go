// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/cluster/controlplane"
)

// endLimit is for the machines, of which there may be many.
const endLimit = time.Minute

// World is all that a program which watches the operator runs: a control plane, the manager, and the machines.
type World struct {
	*Scratch
	Binary  string // the operator's
	Cluster *Cluster
	Manager *Manager // not launched yet after Start

	Root   string // of the checkout
	Assets string // folder of etcd, kube-apiserver and kubectl
}

// Prepare finds and builds what is needed; nothing runs yet. binary is that of the operator if it is built already. dir
// is where the scratch folder is made; empty stands for the system's temporary folder. progress is told what takes long.
func Prepare(ctx context.Context, program, binary, dir string, progress io.Writer) (*World, error) {
	w := &World{}
	var err error
	if w.Root, err = Checkout(); err != nil {
		return nil, err
	}
	if binary == "" {
		_, _ = fmt.Fprintln(progress, "building bin/proxy-operator")
	}
	if w.Binary, err = findBinary(ctx, w.Root, binary); err != nil {
		return nil, err
	}
	if w.Assets, err = controlplane.Assets(ctx, progress); err != nil {
		return nil, fmt.Errorf("provide the control plane's binaries: %w", err)
	}
	for _, swept := range sweepScratch(dir, program) {
		_, _ = fmt.Fprintln(progress, "removed what an earlier run, which was killed, had left in", swept)
	}
	if w.Scratch, err = newScratch(dir, program); err != nil {
		return nil, err
	}
	return w, nil
}

// Start starts the control plane and writes the manager's configuration. fail is called when the control plane ends by
// itself.
func (w *World) Start(ctx context.Context, fail context.CancelCauseFunc) (err error) {
	if w.Cluster, err = startCluster(ctx, w.Root, w.Assets, filepath.Join(w.Dir, "control-plane"), fail); err != nil {
		return err
	}
	w.Manager, err = NewManager(w.Dir, w.Binary, w.StateDir(), w.Cluster.Kubeconfig)
	return err
}

// Launched reports whether there is, or was, a process of the manager.
func (w *World) Launched() bool { return w.Manager != nil && w.Manager.Child != nil }

// End takes away all that was started, in whatever state it is. The manager goes before its machines, or it would make
// them again.
func (w *World) End(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Grace+endLimit)
	defer cancel()
	var errs []error
	if w.Launched() {
		errs = append(errs, w.Manager.End(Grace))
	}
	errs = append(errs, EndMachines(ctx, w.StateDir()))
	if w.Cluster != nil {
		errs = append(errs, w.Cluster.Stop())
	}
	return errors.Join(append(errs, w.Remove())...)
}

// KeepLog moves the manager's log out of the folder that End removes, and returns where it is; empty: there is none.
func (w *World) KeepLog() (string, error) {
	if !w.Launched() {
		return "", nil
	}
	kept := w.Dir + ".log"
	if err := os.Rename(w.Manager.Log, kept); err != nil {
		return "", fmt.Errorf("keep the operator's log: %w", err)
	}
	return kept, nil
}
