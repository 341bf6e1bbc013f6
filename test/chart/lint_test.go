// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

// As `helm lint --strict` does, which fails at a warning.
func TestTheLinterFindsNothing(t *testing.T) {
	for name, v := range valuesFiles(t) {
		t.Run(name, func(t *testing.T) {
			found := lint.AllWithKubeVersionAndSchemaValidation(chartDir, v, releaseNS, nil, false)
			for _, m := range found.Messages {
				require.Less(t, m.Severity, support.WarningSev, "%s: %v", m.Path, m.Err)
			}
		})
	}
}

// A CRD that calls isIP is refused by API servers that don't know it.
func TestAnOlderClusterIsRefusedBeforeAnythingIsInstalled(t *testing.T) {
	a := action.NewInstall(&action.Configuration{})
	a.ClientOnly, a.DryRun, a.ReleaseName, a.Namespace = true, true, releaseName, releaseNS
	a.KubeVersion = &chartutil.KubeVersion{Version: "v1.30.9", Major: "1", Minor: "30"}
	_, err := a.RunWithContext(t.Context(), loadChart(t), nil)
	require.ErrorContains(t, err, "incompatible with Kubernetes v1.30.9")
}
