// SPDX-License-Identifier: Apache-2.0

package product

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/hack/image/oci"
)

// checkout is a small module that stands for a checkout.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "cmd"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/app\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cmd", "main.go"), []byte("package main\n\nvar version = \"dev\"\n\nfunc main() { println(version) }\n"), 0o600))
	return dir
}

func TestTwoBuildsGiveOneDigest(t *testing.T) {
	var digests []string
	for range 2 {
		out := filepath.Join(t.TempDir(), "image.tar")
		done, err := Build(t.Context(), Options{Root: checkout(t), Name: "example.com/app:1", Version: "v1", Platforms: []string{"linux/amd64"}, Out: out})
		require.NoError(t, err)
		require.FileExists(t, out)
		digests = append(digests, done.Digest)
		list, err := os.ReadFile(strings.TrimSuffix(out, ".tar") + ".linux-amd64.spdx.json")
		require.NoError(t, err)
		require.True(t, json.Valid(list))
	}
	require.Equal(t, digests[0], digests[1], "the folder is no part of it")
}

func TestAnotherVersionGivesAnotherDigest(t *testing.T) {
	digests := map[string]bool{}
	for _, version := range []string{"v1", "v2"} {
		done, err := Build(t.Context(), Options{Root: checkout(t), Name: "example.com/app:1", Version: version, Platforms: []string{"linux/arm64"}, Out: filepath.Join(t.TempDir(), "image.tar")})
		require.NoError(t, err)
		digests[done.Digest] = true
	}
	require.Len(t, digests, 2)
}

func TestWhatCannotBeBuiltSaysWhy(t *testing.T) {
	for name, c := range map[string]struct{ why, platform, want string }{
		"a platform without an architecture": {"a slip", "linux", `platform "linux": write OS/ARCH`},
		"a platform that Go doesn't know":    {"the go command says so", "linux/z80", "unsupported GOOS/GOARCH"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Build(t.Context(), Options{Root: checkout(t), Platforms: []string{c.platform}, Out: filepath.Join(t.TempDir(), "image.tar")})
			require.ErrorContains(t, err, c.want, c.why)
		})
	}
}

func TestAnImageThatIsTooLargeIsNotWritten(t *testing.T) {
	data := make([]byte, maxCompressed+1)
	_, err := rand.Read(data) // can't be compressed
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "image.tar")
	_, err = Save(out, "example.com/app:1", oci.Image{OS: "linux", Architecture: "amd64", Files: []oci.File{{Path: "app", Data: data}}})
	require.ErrorContains(t, err, "bytes compressed, more than")
	require.NoFileExists(t, out)
}

// The Dockerfile builds the same where a container engine is at hand.
func TestTheDockerfileSaysTheSame(t *testing.T) {
	text, err := os.ReadFile("../../../Dockerfile")
	require.NoError(t, err)
	file := string(text)
	require.Contains(t, file, "\nUSER "+User+"\n")
	require.Contains(t, file, "\nENTRYPOINT [\""+entrypoint()[0]+"\"]\n")
	require.Contains(t, file, "CGO_ENABLED=0")
	require.Contains(t, file, `go build -trimpath -ldflags="-s -w -X main.version=${VERSION}"`)
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(?:LABEL|) +(org\.opencontainers\S+?)="([^"]*)"`).FindAllStringSubmatch(file, -1) {
		found[m[1]] = m[2]
	}
	require.Equal(t, labels("${VERSION}"), found)
	require.Equal(t, 1, strings.Count(file[strings.Index(file, "FROM scratch"):], "\nCOPY "), "the binary is all that is in it")
}

// The image has no file with authorities.
func TestTheBinaryCarriesTheAuthoritiesThatItTrusts(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../../../cmd").Output()
	require.NoError(t, err)
	require.Contains(t, strings.Fields(string(out)), "golang.org/x/crypto/x509roots/fallback")
}
