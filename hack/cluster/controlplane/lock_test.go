// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const lockHolder = "CONTROLPLANE_TEST_LOCK"

func TestALockIsWaitedForUntilTheContextEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new-folder", "lock")
	unlock, err := tryLock(path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	said := 0
	_, err = lock(ctx, path, func() { said++; cancel() })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, said)

	unlock()
	again, err := lock(t.Context(), path, func() { said++ })
	require.NoError(t, err)
	again()
	require.Equal(t, 1, said, "nobody waits for a free lock")
}

func TestTheLockOfAKilledProcessIsFree(t *testing.T) {
	if path := os.Getenv(lockHolder); path != "" { // we are the process to be killed
		_, err := tryLock(path)
		require.NoError(t, err)
		_, _ = fmt.Fprintln(os.Stdout, "locked")
		<-t.Context().Done()
		return
	}
	path := filepath.Join(t.TempDir(), "lock")
	holder := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	holder.Env = append(os.Environ(), lockHolder+"="+path)
	output, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	lines := bufio.NewScanner(output)
	require.True(t, lines.Scan(), "the holder says that it has the lock")
	_, err = tryLock(path)
	require.ErrorIs(t, err, errLocked)

	require.NoError(t, holder.Process.Kill())
	require.Error(t, holder.Wait())
	unlock, err := tryLock(path)
	require.NoError(t, err)
	unlock()
}
