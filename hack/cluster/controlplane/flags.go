// SPDX-License-Identifier: Apache-2.0

package controlplane

import "fmt"

// etcdFlags make etcd serve only who has a certificate of its own authority:
// otherwise every user of the machine could read Secrets past the API server.
func (c *ControlPlane) etcdFlags() []string {
	files := c.files
	flags := []string{
		"--name=default",
		"--data-dir=" + c.dir.join("etcd"),
		"--listen-client-urls=" + c.etcdURL,
		"--advertise-client-urls=" + c.etcdURL,
		"--listen-peer-urls=https://127.0.0.1:0", // no peers
		"--client-cert-auth", "--peer-client-cert-auth",
		"--trusted-ca-file=" + files.etcdCA, "--peer-trusted-ca-file=" + files.etcdCA,
		"--cert-file=" + files.etcdServing.cert, "--peer-cert-file=" + files.etcdServing.cert,
		"--key-file=" + files.etcdServing.key, "--peer-key-file=" + files.etcdServing.key,
		"--enable-grpc-gateway=false",
		"--quota-backend-bytes=4294967296",
		"--log-level=warn",
	}
	if c.options.UnsafeNoFsync {
		flags = append(flags, "--unsafe-no-fsync")
	}
	return flags
}

func (c *ControlPlane) apiserverFlags(port int) []string {
	files := c.files
	flags := []string{
		"--etcd-servers=" + c.etcdURL,
		"--etcd-cafile=" + files.etcdCA,
		"--etcd-certfile=" + files.etcdClient.cert,
		"--etcd-keyfile=" + files.etcdClient.key,
		"--bind-address=" + c.options.address(),
		"--advertise-address=" + c.options.address(),
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + files.serving.cert,
		"--tls-private-key-file=" + files.serving.key,
		"--client-ca-file=" + files.clientCA,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + files.serviceAccounts,
		"--service-account-signing-key-file=" + files.serviceAccounts,
		"--allow-privileged=true",
		// Ends open watches in a stop; by default each is waited for.
		"--shutdown-watch-termination-grace-period=1s",
	}
	return append(append(flags, c.nodeFlags()...), c.options.APIServerFlags...)
}
