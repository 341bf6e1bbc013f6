// SPDX-License-Identifier: Apache-2.0

// Package oci writes container images as an OCI layout in a tar file, which podman, skopeo, crane and containerd read. The
// same input gives the same bytes: times are zero, owners are root, and files are sorted.
package oci

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// Image is an image of one layer for one platform.
type Image struct {
	// OS and Architecture are Go's names, which are OCI's too.
	OS, Architecture string
	Files            []File
	// User is a number and its group, as 65532:65532.
	User       string
	Entrypoint []string
	Cmd        []string
	Labels     map[string]string
}

// File is one regular file.
type File struct {
	// Path is below the root, without a slash in front.
	Path string
	// Mode are its permissions.
	Mode int64
	Data []byte
}

// Written says what was written.
type Written struct {
	// Digest is that of the image, or of the index over several, by which a registry would know it.
	Digest string
	// Compressed is for each image the bytes that a node fetches of it.
	Compressed []int64
}

// Write writes the images under one name, with their tag, as one layout. With several images there is an index over
// them, from which a node takes that of its platform.
func Write(w io.Writer, name string, images ...Image) (Written, error) {
	if len(images) == 0 {
		return Written{}, errors.New("write image: there is none")
	}
	l := &layout{blobs: map[string][]byte{}}
	var done Written
	var manifests []descriptor
	for _, image := range images {
		manifest, size, err := l.add(image)
		if err != nil {
			return Written{}, err
		}
		manifests = append(manifests, manifest)
		done.Compressed = append(done.Compressed, size)
	}
	top := manifests[0]
	if len(images) > 1 {
		var err error
		if top, err = l.addJSON(mediaIndex, index{SchemaVersion: 2, MediaType: mediaIndex, Manifests: manifests}); err != nil {
			return Written{}, err
		}
	}
	done.Digest = top.Digest
	_, tag, _ := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	top.Annotations = map[string]string{
		"io.containerd.image.name":          name,
		"org.opencontainers.image.ref.name": cmp.Or(tag, "latest"),
	}
	return done, l.write(w, index{SchemaVersion: 2, MediaType: mediaIndex, Manifests: []descriptor{top}})
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type config struct {
	Created string `json:"created"`
	platform
	Config runConfig `json:"config"`
	RootFS rootFS    `json:"rootfs"`
}

type runConfig struct {
	User       string            `json:"User,omitempty"`
	Entrypoint []string          `json:"Entrypoint,omitempty"`
	Cmd        []string          `json:"Cmd,omitempty"`
	WorkingDir string            `json:"WorkingDir"`
	Labels     map[string]string `json:"Labels,omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// layout collects blobs by their digest.
type layout struct{ blobs map[string][]byte }

// add adds an image and returns its manifest, and the bytes of all that belongs to it.
func (l *layout) add(image Image) (descriptor, int64, error) {
	plain, err := layer(image.Files)
	if err != nil {
		return descriptor{}, 0, err
	}
	packed, err := compress(plain)
	if err != nil {
		return descriptor{}, 0, err
	}
	content := l.addBlob(mediaLayer, packed)
	on := platform{Architecture: image.Architecture, OS: image.OS}
	settings, err := l.addJSON(mediaConfig, config{
		Created: time.Unix(0, 0).UTC().Format(time.RFC3339), platform: on,
		Config: runConfig{User: image.User, Entrypoint: image.Entrypoint, Cmd: image.Cmd, WorkingDir: "/", Labels: image.Labels},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{digest(plain)}},
	})
	if err != nil {
		return descriptor{}, 0, err
	}
	m, err := l.addJSON(mediaManifest, manifest{SchemaVersion: 2, MediaType: mediaManifest, Config: settings, Layers: []descriptor{content}})
	m.Platform = &on
	return m, m.Size + settings.Size + content.Size, err
}

func (l *layout) addJSON(media string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, fmt.Errorf("encode %s: %w", media, err)
	}
	return l.addBlob(media, data), nil
}

func (l *layout) addBlob(media string, data []byte) descriptor {
	d := digest(data)
	l.blobs[d] = data
	return descriptor{MediaType: media, Digest: d, Size: int64(len(data))}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// write writes the layout as a tar file.
func (l *layout) write(w io.Writer, top index) error {
	list, err := json.Marshal(top)
	if err != nil {
		return fmt.Errorf("encode index: %w", err)
	}
	files := []File{
		{Path: "index.json", Mode: 0o644, Data: list},
		{Path: "oci-layout", Mode: 0o644, Data: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
	}
	for d, data := range l.blobs {
		files = append(files, File{Path: "blobs/" + strings.Replace(d, ":", "/", 1), Mode: 0o644, Data: data})
	}
	return writeTar(w, files)
}

func layer(files []File) ([]byte, error) {
	var out bytes.Buffer
	err := writeTar(&out, files)
	return out.Bytes(), err
}

func writeTar(w io.Writer, files []File) error {
	t := tar.NewWriter(w)
	for _, f := range slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Path, b.Path) }) {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: f.Mode, Size: int64(len(f.Data)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := t.WriteHeader(header); err != nil {
			return fmt.Errorf("pack %s: %w", f.Path, err)
		}
		if _, err := t.Write(f.Data); err != nil {
			return fmt.Errorf("pack %s: %w", f.Path, err)
		}
	}
	if err := t.Close(); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	return nil
}

func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(data)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	return out.Bytes(), nil
}
