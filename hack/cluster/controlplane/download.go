// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	setupEnvtest = "sigs.k8s.io/controller-runtime/tools/setup-envtest"

	// Without a network an answer never comes; a user should not wait for
	// that before a build which takes minutes starts.
	indexTimeout = 10 * time.Second
	// Once the index has answered, a slow download still beats the build.
	downloadTimeout = 3 * time.Minute
	// setup-envtest compiles in about 10 s. Where it takes longer, and is to be
	// followed by a build if there is no network, it isn't worth the wait.
	compileTimeout = 30 * time.Second
)

// downloadAssets has setup-envtest (pinned in the tools module) download the
// binaries and returns the folder where it keeps them. It checks their hash.
func downloadAssets(ctx context.Context, m *modules, p *progress) (string, error) {
	scratch, err := os.MkdirTemp(os.Getenv("GOTMPDIR"), "setup-envtest-")
	if err != nil {
		return "", fmt.Errorf("create scratch folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	tool := filepath.Join(scratch, "setup-envtest")
	version := strings.TrimPrefix(m.minor(), "v") + ".x"
	var dir string
	err = p.during("looking for a ready-made download", func() error {
		if err := compileSetupEnvtest(ctx, m, tool); err != nil {
			return err
		}
		available, err := run(ctx, indexTimeout, tool, "list", version)
		if err != nil {
			return fmt.Errorf("list downloads: %w", err)
		}
		if available == "" {
			return fmt.Errorf("none of Kubernetes %s for this platform", version)
		}
		dir, err = run(ctx, downloadTimeout, tool, "use", "-p", "path", version)
		return err
	})
	return dir, err
}

func compileSetupEnvtest(ctx context.Context, m *modules, out string) error {
	limited, cancel := context.WithTimeout(ctx, compileTimeout)
	defer cancel()
	stderr, err := runGo(limited, filepath.Join(m.repository, "tools"), false, "build", "-o", out, setupEnvtest)
	switch {
	case err == nil:
		return nil
	case limited.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("setup-envtest not compiled within %s", compileTimeout)
	default:
		return explain("build setup-envtest", err, stderr)
	}
}

// run returns the trimmed output of a command that gets so much time.
func run(ctx context.Context, limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("no answer within %s", limit)
	case err != nil && stderr.Len() > 0:
		return "", errors.New(lastLine(stderr.String()))
	case err != nil:
		return "", fmt.Errorf("run %s: %w", filepath.Base(name), err)
	}
	return strings.TrimSpace(stdout.String()), nil
}
