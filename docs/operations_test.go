// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/providers"
)

var (
	metricInCode = regexp.MustCompile(`"(proxy_operator_[a-z_]+)"|desc\("([a-z_]+)"`)
	metricInDocs = regexp.MustCompile("`(proxy_operator_[a-z_]+)")
)

// TestOperationsTellsOfEveryMetric: what is exported is explained, and what is explained is exported.
func TestOperationsTellsOfEveryMetric(t *testing.T) {
	var exported []string
	for _, dir := range []string{"controllers", filepath.Join("internal", "health")} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, m := range metricInCode.FindAllStringSubmatch(read(t, path), -1) {
				name := m[1]
				if name == "" {
					name = "proxy_operator_" + m[2]
				}
				exported = append(exported, name)
			}
			return nil
		})
		require.NoError(t, err)
	}
	require.Greater(t, len(exported), 10)
	page := read(t, filepath.Join(root, "docs", "operations.md"))
	var told []string
	for _, m := range metricInDocs.FindAllStringSubmatch(page, -1) {
		told = append(told, m[1])
	}
	slices.Sort(exported)
	slices.Sort(told)
	require.Equal(t, slices.Compact(exported), slices.Compact(told))
}

func TestOperationsTellsOfEveryGuard(t *testing.T) {
	page := read(t, filepath.Join(root, "docs", "operations.md"))
	for _, code := range []string{
		providers.CodeRateLimited, providers.CodeBusy, providers.CodeBackingOff, providers.CodeCircuitOpen, providers.CodeGateClosed, providers.CodeMaxInstances,
	} {
		require.Contains(t, page, "`"+code+"`")
	}
	for _, mode := range providers.OrphanModes() {
		require.Contains(t, page, "`"+string(mode)+"`")
	}
}
