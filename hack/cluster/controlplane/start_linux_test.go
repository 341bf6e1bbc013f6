// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

const owner = "CONTROLPLANE_TEST_OWNER"

func TestTheProcessesDieWithAnOwnerThatIsKilled(t *testing.T) {
	if os.Getenv(owner) != "" { // we are the process to be killed
		c := start(t, Options{})
		_, _ = fmt.Fprintln(os.Stdout, "pids", c.PIDs()[etcd], c.PIDs()[apiserver])
		<-t.Context().Done()
		return
	}
	temporary := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), owner+"=yes", "TMPDIR="+temporary, assetsVariable+"="+realAssets(t))
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var etcdPID, apiserverPID int
	for lines := bufio.NewScanner(output); apiserverPID == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "pids %d %d", &etcdPID, &apiserverPID) // other lines are the test framework's
	}
	require.NotZero(t, apiserverPID)
	require.True(t, runs(etcdPID))
	require.True(t, runs(apiserverPID))

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool { return !runs(etcdPID) && !runs(apiserverPID) }, patience, poll)
}

// runs says whether a process is alive: a zombie, dead but not yet reaped by
// the system's first process, is not.
func runs(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return len(state) > 0 && state[0] != 'Z'
}
