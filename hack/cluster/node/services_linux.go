// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proxy-operator/proxy-operator/hack/cluster/controlplane"
	"github.com/proxy-operator/proxy-operator/hack/cluster/dns"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	apiPort          = 6443
)

// services starts and holds what runs on the node. All of it ends with the process.
type services struct {
	home   home
	config config
	values values
	plane  *controlplane.ControlPlane
	keeper *keeper
}

// serve starts everything, says so, and goes on until ctx or the control plane ends. Anything else that ends is started
// again.
func serve(ctx context.Context, h home) error {
	s := &services{home: h, keeper: newKeeper()}
	if err := h.load(settings, &s.config); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	tell(report{Ready: true})
	select {
	case <-ctx.Done():
		return nil
	case <-s.plane.Done():
		return s.plane.Err()
	}
}

// start brings everything up, in the order in which one part needs the other.
func (s *services) start(ctx context.Context) error {
	begin := time.Now()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"containerd started", s.startContainerd},
		{"control plane ready", s.startControlPlane},
		{"controller manager and scheduler started", s.startControllers},
		{"images imported", s.importImages},
		{"kubelet, kube-proxy and DNS started", s.startNode},
		{"node ready for pods", s.awaitNode},
	} {
		if err := step.do(ctx); err != nil {
			return err
		}
		tell(report{Done: fmt.Sprintf("%5.1f s  %s", time.Since(begin).Seconds(), step.what)})
	}
	return nil
}

func (s *services) state(name string) string { return filepath.Join(state, name) }

func (s *services) asset(name string) string { return filepath.Join(s.config.NodeAssets, name) }

func (s *services) startContainerd(context.Context) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	s.values = values{
		State: state, Socket: containerdSocket, NodeAssets: s.config.NodeAssets, PauseImage: pauseImage,
		Address: address, Hostname: hostname, Domain: dns.Domain, PodCIDR: podCIDR, NodePodCIDR: nodePodCIDR,
		ProxyKubeconfig: s.state("kube-proxy.kubeconfig"),
		MaxOpenFiles:    min(limit.Max, 1_000_000), // more than the hard limit takes CAP_SYS_RESOURCE
	}
	err := errors.Join(
		s.values.write("containerd.toml", s.state("containerd.toml")),
		s.values.write("cni.conflist", s.state("cni/10-node.conflist")),
		os.WriteFile(s.state("resolv.conf"), []byte("nameserver "+address+"\n"), 0o600),
	)
	if err != nil {
		return err
	}
	return s.run("containerd", "--config="+s.state("containerd.toml"))
}

func (s *services) startControlPlane(ctx context.Context) (err error) {
	var flags []string
	if s.config.AuditPolicy != "" {
		flags = []string{"--audit-policy-file=" + s.config.AuditPolicy, "--audit-log-path=" + s.home.log("audit")}
	}
	s.plane, err = controlplane.Start(ctx, controlplane.Options{
		Assets: s.config.Assets, DataDir: s.state("control-plane"), Kubeconfig: s.home.join(kubeconfig), Port: apiPort,
		UnsafeNoFsync: true, APIServerFlags: flags,
		Nodes: &controlplane.Nodes{Address: address, ServiceCIDR: serviceCIDR, ServiceIP: serviceIP},
	})
	if err != nil {
		return err
	}
	for _, c := range []struct {
		file, name string
		groups     []string
	}{
		{"scheduler.kubeconfig", "system:kube-scheduler", nil},
		{"kubelet.kubeconfig", "system:node:" + hostname, []string{"system:nodes"}},
		{"kube-proxy.kubeconfig", "system:kube-proxy", nil},
	} {
		if err := s.plane.WriteKubeconfig(s.state(c.file), c.name, c.groups...); err != nil {
			return err
		}
	}
	s.values.Authority = s.plane.AuthorityFile()
	s.values.ServingCert, s.values.ServingKey, err = s.plane.WriteServing(state, "kubelet", address)
	return err
}

// startControllers starts the controller manager as an administrator: with an account for each controller the first
// pods would wait seconds for theirs.
func (s *services) startControllers(context.Context) error {
	return errors.Join(
		s.run("kube-controller-manager",
			"--kubeconfig="+s.home.join(kubeconfig), "--leader-elect=false", "--bind-address=127.0.0.1",
			"--cluster-cidr="+podCIDR, "--service-cluster-ip-range="+serviceCIDR,
			"--service-account-private-key-file="+s.plane.ServiceAccountKeyFile(), "--root-ca-file="+s.plane.AuthorityFile(),
		),
		s.run("kube-scheduler", "--kubeconfig="+s.state("scheduler.kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1"),
	)
}

func (s *services) importImages(ctx context.Context) error {
	if err := eventually(ctx, func() error { return s.ctr(ctx, "version") }); err != nil {
		return fmt.Errorf("wait for containerd: %w", err)
	}
	for _, image := range s.config.Images {
		if err := s.ctr(ctx, "images", "import", image); err != nil {
			return fmt.Errorf("import %s: %w", image, err)
		}
	}
	return nil
}

func (s *services) ctr(ctx context.Context, args ...string) error {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, s.asset("ctr"), append([]string{"--address=" + containerdSocket, "--namespace=k8s.io"}, args...)...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ctr %s: %w: %s", args[0], err, strings.TrimSpace(output.String()))
	}
	return nil
}

func (s *services) startNode(ctx context.Context) error {
	err := errors.Join(
		s.values.write("kubelet.yaml", s.state("kubelet.yaml")),
		s.values.write("kube-proxy.yaml", s.state("kube-proxy.yaml")),
	)
	if err != nil {
		return err
	}
	return errors.Join(
		s.run("kubelet",
			"--config="+s.state("kubelet.yaml"), "--kubeconfig="+s.state("kubelet.kubeconfig"), "--hostname-override="+hostname,
			"--node-ip="+address, "--root-dir="+s.state("kubelet"), "--cert-dir="+s.state("kubelet-pki"), "--oom-score-adj=0", "--v=2",
		),
		s.run("kube-proxy", "--config="+s.state("kube-proxy.yaml")),
		s.startDNS(ctx),
	)
}

func (s *services) startDNS(ctx context.Context) error {
	config, err := s.admin()
	if err != nil {
		return err
	}
	names, err := dns.Watch(ctx, config)
	if err != nil {
		return err
	}
	conn, err := new(net.ListenConfig).ListenPacket(ctx, "udp", net.JoinHostPort(address, "53"))
	if err != nil {
		return fmt.Errorf("serve DNS: %w", err)
	}
	go func() { _ = dns.Serve(ctx, conn, names) }()
	return nil
}

// run starts a part of the node that is to be there as long as the node is.
func (s *services) run(name string, args ...string) error {
	return s.keeper.keep(s.asset(name), s.home.log(name), args...)
}
