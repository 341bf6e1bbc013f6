// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAListNamesEveryModule(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8", Main: debug.Module{Path: "example.com/app"},
		Deps: []*debug.Module{
			{Path: "example.com/z", Version: "v1.0.0", Sum: "h1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="},
			{Path: "example.com/b", Version: "v0.1.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v0.2.0"}},
		},
	}
	got, err := SPDX(Subject{Name: "app", Version: "v1.2.3", Checksum: "00ff"}, info)
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join("testdata", "app.spdx.json"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestAChecksumThatIsNoneIsAnError(t *testing.T) {
	_, err := SPDX(Subject{}, &debug.BuildInfo{Deps: []*debug.Module{{Path: "example.com/a", Sum: "h1:?"}}})
	require.ErrorContains(t, err, "read checksum of example.com/a")
}
