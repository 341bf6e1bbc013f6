// SPDX-License-Identifier: Apache-2.0

// Package earlier reads the chart as an earlier commit has it, for tests to upgrade from.
package earlier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// Version is what the earlier chart is called: lower than any release.
const Version = "0.0.1"

const folder = "charts/proxy-operator"

// Chart returns the chart of an earlier commit under Version, and that commit: the newest release (a tag v*) before HEAD, else
// the oldest commit of the clone that has the chart. In a shallow clone that may be HEAD itself. root is the top folder of the clone.
func Chart(ctx context.Context, root string) (c *chart.Chart, commit string, err error) {
	if commit, err = choose(ctx, root); err != nil {
		return nil, "", err
	}
	archive, err := git(ctx, root, "archive", "--format=tar.gz", "--prefix=proxy-operator/", commit+":"+folder)
	if err != nil {
		return nil, "", err
	}
	if c, err = loader.LoadArchive(bytes.NewReader(archive)); err != nil {
		return nil, "", fmt.Errorf("load the chart of %s: %w", commit, err)
	}
	c.Metadata.Version, c.Metadata.AppVersion = Version, Version
	return c, commit, nil
}

func choose(ctx context.Context, root string) (string, error) {
	tags, err := git(ctx, root, "tag", "--list", "v*", "--merged", "HEAD", "--no-contains", "HEAD", "--sort=-version:refname")
	if err != nil {
		return "", err
	}
	for tag := range strings.FieldsSeq(string(tags)) {
		has, err := git(ctx, root, "ls-tree", "--name-only", tag, folder+"/Chart.yaml")
		if err != nil {
			return "", err
		}
		if len(has) > 0 {
			return tag, nil
		}
	}
	commits, err := git(ctx, root, "rev-list", "--reverse", "HEAD", "--", folder+"/Chart.yaml")
	if err != nil {
		return "", err
	}
	oldest, _, _ := strings.Cut(string(commits), "\n")
	if oldest == "" {
		return "", errors.New("no commit of this clone has " + folder)
	}
	return oldest, nil
}

func git(ctx context.Context, root string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
