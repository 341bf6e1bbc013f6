// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWrongUsageIsAnswered(t *testing.T) {
	for _, args := range [][]string{{}, {"stop"}, {"down", "x"}, {"in"}, {"in", "--"}, {"up", "--node", "--port", "1"}, {"assets", "x"}, {"up", "x"}, {"up", "--nope"}, {"up", "--port", "x"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			require.ErrorIs(t, run(t.Context(), args, &bytes.Buffer{}, &bytes.Buffer{}), errUsage)
		})
	}
}

func TestHelpIsPrinted(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"--help"}, {"up", "--help"}, {"up", "-h"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var stdout bytes.Buffer
			require.NoError(t, run(t.Context(), args, &stdout, &bytes.Buffer{}))
			require.Equal(t, usage, stdout.String())
		})
	}
}

func TestAssetsPrintsTheFolderAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700)) //nolint:gosec // it has to be executable
	}
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	var stdout, stderr bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"assets"}, &stdout, &stderr))
	require.Equal(t, dir+"\n", stdout.String())
}

func TestUpServesUntilItIsInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"up", "--kubeconfig", kubeconfig}, writer(func(text string) { ready <- text }), t.Output())
	}()
	select {
	case text := <-ready:
		require.Contains(t, text, "export KUBECONFIG="+kubeconfig)
		require.FileExists(t, kubeconfig)
	case err := <-done:
		require.NoError(t, err)
	}
	interrupt()
	require.NoError(t, <-done)
	require.NoFileExists(t, kubeconfig)
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestAProgramOutsideGoRunOutlivesItsParent(t *testing.T) {
	ctx, cancel := startedByGoRun(t.Context(), "/usr/local/bin/cluster", func() int { return 1 })
	defer cancel()
	require.NoError(t, ctx.Err())
}

func TestUnderGoRunTheProgramEndsWithItsParent(t *testing.T) {
	parents := make(chan int, 2)
	parents <- 4711 // go run
	parents <- 1    // go run has gone
	ctx, cancel := startedByGoRun(t.Context(), "/tmp/go-build123/b001/exe/cluster", func() int { return <-parents })
	defer cancel()
	select {
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
		require.Fail(t, "it goes on without its parent")
	}
}

type writer func(string)

func (w writer) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}
