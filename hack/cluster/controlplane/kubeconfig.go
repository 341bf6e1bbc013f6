// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// kubeconfigMark is a kubeconfig's first line by which we know it as ours.
const kubeconfigMark = "# Written by proxy-operator's control plane on loopback; overwritten by each start.\n"

const kubeconfigFormat = kubeconfigMark + `apiVersion: v1
kind: Config
current-context: proxy-operator
contexts:
- name: proxy-operator
  context: {cluster: proxy-operator, user: proxy-operator-admin}
clusters:
- name: proxy-operator
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: proxy-operator-admin
  user:
    client-certificate-data: %s
    client-key-data: %s
`

// claimKubeconfig settles which file gets the kubeconfig: file, or one in the
// data directory if that is "". A file there that isn't ours is left alone: it
// may be a user's ~/.kube/config with the only credentials of other clusters.
func (c *ControlPlane) claimKubeconfig(file string) error {
	if file == "" {
		file = c.dir.join("admin.kubeconfig")
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	ours, err := isOurKubeconfig(file)
	if err != nil {
		return err
	}
	if !ours {
		return fmt.Errorf("kubeconfig %s exists and isn't of a control plane on loopback: name another file", file)
	}
	c.Kubeconfig = file
	return nil
}

// writeKubeconfig writes the admin's kubeconfig, readable by its owner only.
func (c *ControlPlane) writeKubeconfig() error {
	encode := base64.StdEncoding.EncodeToString
	return writePrivate(c.Kubeconfig, fmt.Appendf(nil, kubeconfigFormat, c.Endpoint, encode(c.CA), encode(c.ClientCert), encode(c.ClientKey)))
}

// isOurKubeconfig says whether file may be written: it is ours or absent.
func isOurKubeconfig(file string) (bool, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at kubeconfig: %w", err)
	}
	return bytes.HasPrefix(text, []byte(kubeconfigMark)), nil
}

// removeKubeconfig leaves a file alone that has become another's since.
func (c *ControlPlane) removeKubeconfig() error {
	if c.Kubeconfig == "" {
		return nil
	}
	ours, err := isOurKubeconfig(c.Kubeconfig)
	if err != nil || !ours {
		return err
	}
	if err := os.Remove(c.Kubeconfig); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove kubeconfig: %w", err)
	}
	return nil
}
