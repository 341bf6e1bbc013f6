// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// pack writes the chart in folder to DIR/NAME-VERSION.tgz. Unlike `helm package` it stamps no time, so that the same files give the
// same bytes.
func pack(folder, dir string) (string, error) {
	c, err := loader.Load(folder)
	if err != nil {
		return "", err
	}
	if err := c.Validate(); err != nil {
		return "", err
	}
	raw, err := archive(c)
	if err != nil {
		return "", fmt.Errorf("archive the chart: %w", err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	file := filepath.Join(dir, c.Name()+"-"+c.Metadata.Version+".tgz")
	return file, os.WriteFile(file, raw, 0o644) //nolint:gosec // for everybody to read
}

func archive(c *chart.Chart) ([]byte, error) {
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	files := tar.NewWriter(packed)
	place := func(f *chart.File) string { return strings.TrimPrefix(f.Name, "Chart.yaml") } // it is first, as Helm's own readers expect
	slices.SortFunc(c.Raw, func(a, b *chart.File) int { return strings.Compare(place(a), place(b)) })
	for _, f := range c.Raw {
		head := &tar.Header{
			Name: c.Name() + "/" + filepath.ToSlash(f.Name), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f.Data)), ModTime: time.Unix(0, 0),
		}
		if err := files.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := files.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := files.Close(); err != nil {
		return nil, err
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
