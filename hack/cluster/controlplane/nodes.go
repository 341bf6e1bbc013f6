// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"encoding/base64"
	"fmt"
	"net"
	"path/filepath"
)

const loopback = "127.0.0.1"

// address is where the API server listens.
func (o *Options) address() string {
	if o.Nodes == nil {
		return loopback
	}
	return o.Nodes.Address
}

// addresses are those of the API server beside loopback.
func (o *Options) addresses() []net.IP {
	if o.Nodes == nil {
		return nil
	}
	return []net.IP{net.ParseIP(o.Nodes.Address), net.ParseIP(o.Nodes.ServiceIP)}
}

// nodeFlags are the API server's that differ with nodes and without.
func (c *ControlPlane) nodeFlags() []string {
	n := c.options.Nodes
	if n == nil {
		return []string{
			// An endpoint of the kubernetes Service on loopback would be refused.
			"--endpoint-reconciler-type=none",
			"--service-cluster-ip-range=10.0.0.0/24",
			"--authorization-mode=RBAC",
			// It waits for a default service account, which a controller of the
			// controller manager would make.
			"--disable-admission-plugins=ServiceAccount",
		}
	}
	return []string{
		"--service-cluster-ip-range=" + n.ServiceCIDR,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		// For logs, exec and port-forward, which the kubelet serves.
		"--kubelet-client-certificate=" + c.files.kubeletClient.cert,
		"--kubelet-client-key=" + c.files.kubeletClient.key,
		"--kubelet-certificate-authority=" + c.files.clientCA,
		"--kubelet-preferred-address-types=InternalIP",
	}
}

// AuthorityFile is the certificate authority that clients and kubelets must
// have a certificate of.
func (c *ControlPlane) AuthorityFile() string { return c.files.clientCA }

// ServiceAccountKeyFile is the key that signs the tokens of service accounts.
func (c *ControlPlane) ServiceAccountKeyFile() string { return c.files.serviceAccounts }

// WriteKubeconfig makes credentials for the user name, a member of groups, and
// writes their kubeconfig to file. They are good for a year.
func (c *ControlPlane) WriteKubeconfig(file, name string, groups ...string) error {
	pair, err := c.files.cluster.client(name, groups...)
	if err != nil {
		return err
	}
	encode := base64.StdEncoding.EncodeToString
	return writePrivate(file, fmt.Appendf(nil, kubeconfigFormat, c.Endpoint, encode(c.CA), encode(pair.cert), encode(pair.key)))
}

// WriteServing makes a certificate for a server at address and writes it, with
// its key, to NAME.crt and NAME.key in dir.
func (c *ControlPlane) WriteServing(dir, name, address string) (cert, key string, err error) {
	pair, err := c.files.cluster.serving(name, []net.IP{net.ParseIP(address)})
	if err != nil {
		return "", "", err
	}
	files, err := pair.write(filepath.Clean(dir), name)
	return files.cert, files.key, err
}
