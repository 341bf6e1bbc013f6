// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func image(arch string) Image {
	return Image{
		OS: "linux", Architecture: arch, User: "65532:65532", Entrypoint: []string{"/app"}, Labels: map[string]string{"a": "b"},
		Files: []File{{Path: "z", Mode: 0o644, Data: []byte("last")}, {Path: "app", Mode: 0o755, Data: []byte("binary of " + arch)}},
	}
}

func TestTheSameInputGivesTheSameBytes(t *testing.T) {
	var first, second bytes.Buffer
	one, err := Write(&first, "example.com/app:1", image("amd64"), image("arm64"))
	require.NoError(t, err)
	two, err := Write(&second, "example.com/app:1", image("amd64"), image("arm64"))
	require.NoError(t, err)
	require.Equal(t, one, two)
	require.Equal(t, first.Bytes(), second.Bytes())
}

func TestOtherContentGivesAnotherDigest(t *testing.T) {
	one, err := Write(io.Discard, "example.com/app:1", image("amd64"))
	require.NoError(t, err)
	other := image("amd64")
	other.Files[0].Data = []byte("changed")
	two, err := Write(io.Discard, "example.com/app:1", other)
	require.NoError(t, err)
	require.NotEqual(t, one.Digest, two.Digest)
}

func TestNoImageIsAnError(t *testing.T) {
	_, err := Write(io.Discard, "example.com/app:1")
	require.EqualError(t, err, "write image: there is none")
}

func TestALayoutLeadsFromItsIndexToEveryFile(t *testing.T) {
	for name, c := range map[string]struct {
		why    string
		images []Image
	}{
		"one platform":  {"a node's image, for a test", []Image{image("amd64")}},
		"two platforms": {"what is released", []Image{image("amd64"), image("arm64")}},
	} {
		t.Run(name, func(t *testing.T) {
			var file bytes.Buffer
			done, err := Write(&file, "example.com:5000/app:1", c.images...)
			require.NoError(t, err)
			blobs := untar(t, &file)
			require.JSONEq(t, `{"imageLayoutVersion":"1.0.0"}`, string(blobs["oci-layout"]), c.why)
			var top index
			require.NoError(t, json.Unmarshal(blobs["index.json"], &top))
			require.Len(t, top.Manifests, 1)
			require.Equal(t, done.Digest, top.Manifests[0].Digest)
			require.Equal(t, map[string]string{"io.containerd.image.name": "example.com:5000/app:1", "org.opencontainers.image.ref.name": "1"}, top.Manifests[0].Annotations)
			manifests := top.Manifests
			if len(c.images) > 1 {
				var nested index
				read(t, blobs, manifests[0], &nested)
				manifests = nested.Manifests
			}
			require.Len(t, manifests, len(c.images))
			for i, m := range manifests {
				requireImage(t, blobs, m, c.images[i], done.Compressed[i])
			}
		})
	}
}

func requireImage(t *testing.T, blobs map[string][]byte, d descriptor, want Image, size int64) {
	t.Helper()
	require.Equal(t, &platform{Architecture: want.Architecture, OS: want.OS}, d.Platform)
	var m manifest
	read(t, blobs, d, &m)
	require.Equal(t, size, d.Size+m.Config.Size+m.Layers[0].Size)
	var settings config
	read(t, blobs, m.Config, &settings)
	require.Equal(t, want.Architecture, settings.Architecture)
	require.Equal(t, runConfig{User: want.User, Entrypoint: want.Entrypoint, WorkingDir: "/", Labels: want.Labels}, settings.Config)
	z, err := gzip.NewReader(bytes.NewReader(blob(t, blobs, m.Layers[0])))
	require.NoError(t, err)
	plain, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, []string{digest(plain)}, settings.RootFS.DiffIDs, "the node checks it after unpacking")
	files := untar(t, bytes.NewReader(plain))
	require.Len(t, files, len(want.Files))
	for _, f := range want.Files {
		require.Equal(t, f.Data, files[f.Path])
	}
}

func blob(t *testing.T, blobs map[string][]byte, d descriptor) []byte {
	t.Helper()
	data := blobs["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
	require.Equal(t, d.Digest, digest(data))
	require.Len(t, data, int(d.Size))
	return data
}

func read(t *testing.T, blobs map[string][]byte, d descriptor, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(blob(t, blobs, d), into))
}

func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		require.Zero(t, header.Uid)
		require.Zero(t, header.ModTime.Unix())
		files[header.Name], err = io.ReadAll(archive)
		require.NoError(t, err)
	}
}
