// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/proxy-operator/proxy-operator/hack/child"
)

const (
	pause     = time.Second // before what ended is started again
	readyPoll = 100 * time.Millisecond
)

// keeper starts programs, and starts them again when they end, as the init system of a machine does. Their containers and
// files outlive that, so that a test may kill them.
type keeper struct{ env []string }

func newKeeper() *keeper {
	return &keeper{env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + state, "XDG_RUNTIME_DIR=/run"}}
}

func (k *keeper) keep(binary, log string, args ...string) error {
	command := child.Command{Name: filepath.Base(binary), Path: binary, Args: args, Env: k.env, Dir: state, Log: log}
	running, err := child.Start(command)
	if err != nil {
		return err
	}
	go func() {
		for {
			if running != nil {
				<-running.Done()
			}
			<-time.After(pause)
			if running, err = child.Start(command); err != nil {
				_, _ = fmt.Fprintln(os.Stderr, err) // the node's log; it is tried again
			}
		}
	}()
	return nil
}

func (s *services) admin() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.home.join(kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return config, nil
}

// awaitNode waits until a pod could be made and would be started.
func (s *services) awaitNode(ctx context.Context) error {
	config, err := s.admin()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("wait for the node: %w", err)
	}
	return eventually(ctx, func() error {
		node, err := client.CoreV1().Nodes().Get(ctx, hostname, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("wait for the node: %w", err)
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return fmt.Errorf("wait for the node: %s", c.Message)
			}
		}
		if len(node.Status.Conditions) == 0 || len(node.Spec.Taints) > 0 {
			return fmt.Errorf("wait for the node: it is not ready")
		}
		if _, err = client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return fmt.Errorf("wait for the default service account: %w", err)
		}
		return nil
	})
}

// eventually tries until it works; when ctx ends first, it returns the last error.
func eventually(ctx context.Context, try func() error) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
