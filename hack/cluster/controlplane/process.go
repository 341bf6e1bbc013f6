// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/proxy-operator/proxy-operator/hack/child"
)

// startProcess starts etcd or kube-apiserver with its output alone in the file
// log.
func startProcess(binary, log string, args ...string) (*child.Child, error) {
	// What an earlier one wrote must not pass for this one's last words.
	if err := os.Remove(log); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return child.Start(child.Command{
		Name: filepath.Base(binary), Path: binary, Args: args, Dir: filepath.Dir(log), Log: log,
		// etcd takes any flag from ETCD_*: only what is on the command line counts.
		Env: []string{"PATH=" + os.Getenv("PATH")},
	})
}

// ended describes how a process ended that should run, with the last lines it
// wrote. Only for use after its end.
func ended(p *child.Child) error {
	state := "exit status 0"
	if err := p.Err(); err != nil {
		state = err.Error()
	}
	return fmt.Errorf("%s ended (%s); its last lines:\n%s", p.Name(), state, indent(p.LastLines(15)))
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}
