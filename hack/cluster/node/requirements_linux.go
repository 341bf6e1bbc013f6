// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// requirements says what this machine lacks.
func requirements() error {
	if os.Geteuid() != 0 {
		return errors.New("a node needs root: it makes namespaces, mounts and cgroups (sudo -E go run ./hack/cluster ...)")
	}
	// Debian keeps some in /usr/sbin, which isn't in every PATH.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil {
		return err
	}
	if err := visible(os.TempDir()); err != nil {
		return err
	}
	var missing []string
	for command, pkg := range map[string]string{"ip": "iproute2", "nft": "nftables", "nsenter": "util-linux"} {
		if _, err := exec.LookPath(command); err != nil {
			missing = append(missing, pkg)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("a node needs programs that aren't here; Debian's packages are: %s", strings.Join(missing, " "))
	}
	for _, namespace := range []string{"cgroup", "ipc", "mnt", "net", "pid", "uts"} {
		if _, err := os.Stat(filepath.Join("/proc/self/ns", namespace)); err != nil {
			return fmt.Errorf("a node needs a kernel with %s namespaces: %w", namespace, err)
		}
	}
	return nil
}

// visible refuses a folder that looks different from inside: what is written there from one side must be seen from the other.
func visible(dir string) error {
	if strings.Contains(dir, ":") {
		return fmt.Errorf("your folder for temporary files (%s) has a colon in its name, which divides a list in KUBECONFIG: set TMPDIR to another", dir)
	}
	if target, err := filepath.EvalSymlinks(dir); err == nil { // one that isn't there is found out later
		dir = target
	}
	for _, hidden := range append(shielded(), "/run", "/var/log") {
		if strings.HasPrefix(dir+"/", hidden+"/") {
			return fmt.Errorf("a node has a %s of its own, and your folder for temporary files is in there (%s): set TMPDIR to another", hidden, dir)
		}
	}
	return nil
}
