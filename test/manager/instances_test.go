// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// killProcesses kills all that mention the path, and says which there were: a test has to end its own.
func killProcesses(path string) error {
	left, err := killOnce(path)
	if err != nil || len(left) == 0 {
		return err
	}
	errs := []error{fmt.Errorf("%d processes were left over: %v", len(left), left)}
	for deadline := time.Now().Add(patience); len(left) > 0; {
		if time.Now().After(deadline) {
			return errors.Join(append(errs, fmt.Errorf("and these can't be killed: %v", left))...)
		}
		<-time.After(50 * time.Millisecond)
		if left, err = killOnce(path); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

func killOnce(path string) ([]operator.Process, error) {
	left, err := operator.Processes(context.Background(), path)
	// etcd and kube-apiserver run from folders of their own; their flags name the audit log.
	left = slices.DeleteFunc(left, func(p operator.Process) bool { return p.Args[0] != cluster.binary })
	for _, p := range left {
		if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return left, err
		}
	}
	return left, err
}
