// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed files
var files embed.FS

// values are what the files under files/ are filled with.
type values struct {
	State, Socket, NodeAssets, PauseImage string
	Address, Hostname, Domain             string
	PodCIDR, NodePodCIDR                  string
	Authority, ServingCert, ServingKey    string
	ProxyKubeconfig                       string
	MaxOpenFiles                          uint64
}

// write fills one of the files and puts it at path.
func (v values) write(name, path string) error {
	t, err := template.ParseFS(files, "files/"+name)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	var text bytes.Buffer
	if err := t.Option("missingkey=error").Execute(&text, v); err != nil {
		return fmt.Errorf("fill %s: %w", name, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
