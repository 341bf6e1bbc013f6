// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/hack/child"
)

const (
	// A start takes 3-4 s on a quiet machine; a loaded one gets more.
	startTimeout = 2 * time.Minute
	// kube-apiserver waits for its watches to end, and holds no data: etcd does.
	apiserverGrace = 10 * time.Second
	etcdGrace      = 10 * time.Second
	// A free port may be taken by another process before we listen on it.
	portAttempts = 3
)

// Options say how to start a control plane. The zero value is a fresh one on
// free ports that leaves nothing behind.
type Options struct {
	// Assets is a folder with etcd and kube-apiserver; "" stands for Assets().
	Assets string
	// DataDir keeps data, keys and logs over a stop, so that the next start on
	// it finds all objects and honours earlier credentials. It holds the
	// cluster's private keys. "" stands for a temporary one that Stop removes.
	DataDir string
	// Kubeconfig is the file for the admin's kubeconfig, removed by Stop; ""
	// stands for one in the data directory.
	Kubeconfig string
	// Port and EtcdPort are ports on 127.0.0.1; 0 stands for a free one.
	Port, EtcdPort int
	// Nodes makes it fit for nodes with pods; nil stands for one on loopback
	// without any.
	Nodes *Nodes
	// UnsafeNoFsync lets etcd lose writes when the machine (not the process)
	// dies. Faster, and right for all data that a test throws away.
	UnsafeNoFsync bool
	// APIServerFlags are added to kube-apiserver's and win over ours.
	APIServerFlags []string
	// Log is told about what takes long; nil discards it.
	Log io.Writer
}

// Nodes says how nodes and pods reach the API server, which then listens there
// and not on loopback.
type Nodes struct {
	// Address is an IPv4 address of this machine.
	Address string
	// ServiceCIDR is where Services get their addresses, and ServiceIP is that
	// of the API server itself: the first one in it.
	ServiceCIDR, ServiceIP string
}

// ControlPlane is a running etcd and kube-apiserver. Both listen on 127.0.0.1
// only (but see Nodes) and ask every client for a certificate or token.
type ControlPlane struct {
	// Kubeconfig is the file with the kubeconfig of a member of
	// system:masters, whom no RBAC rule limits; to be limited, impersonate.
	Kubeconfig string
	// Endpoint, CA, ClientCert and ClientKey are what the kubeconfig holds:
	// the API server's URL and PEM texts.
	Endpoint              string
	CA                    []byte
	ClientCert, ClientKey []byte

	options         Options
	dir             *dataDir
	files           *pkiFiles
	etcdURL         string
	etcd, apiserver *child.Child
	stopping        atomic.Bool
	stop            func() error
	done            chan struct{}
	err             error // read only after done
}

// Start starts a control plane and returns once it is ready. ctx bounds the
// start only; what was started runs until Stop. When Start fails nothing is
// left running.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	if options.Log == nil {
		options.Log = io.Discard
	}
	if options.Assets == "" {
		assets, err := Assets(ctx, options.Log)
		if err != nil {
			return nil, err
		}
		options.Assets = assets
	}
	dir, err := openDataDir(options.DataDir, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{options: options, dir: dir, done: make(chan struct{})}
	c.stop = sync.OnceValue(c.stopAll)
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) (err error) {
	if err := c.claimKubeconfig(c.options.Kubeconfig); err != nil {
		return err
	}
	if c.files, err = c.dir.issue(clock.RealClock{}.Now(), c.options.addresses()...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %s", startTimeout))
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := c.startProcesses(ctx)
		if err == nil {
			break
		}
		if attempt == portAttempts || !c.lostPort() {
			return err
		}
		if err := c.stopProcesses(); err != nil {
			return err
		}
		c.etcd, c.apiserver = nil, nil
	}
	c.CA, c.ClientCert, c.ClientKey = c.files.ca, c.files.admin.cert, c.files.admin.key
	if err := c.writeKubeconfig(); err != nil {
		return err
	}
	go c.watch()
	return nil
}

func (c *ControlPlane) startProcesses(ctx context.Context) (err error) {
	port, etcdPort, err := choosePorts(c.options.Port, c.options.EtcdPort)
	if err != nil {
		return err
	}
	c.etcdURL = fmt.Sprintf("https://127.0.0.1:%d", etcdPort)
	c.Endpoint = fmt.Sprintf("https://%s:%d", c.options.address(), port)

	c.etcd, err = startProcess(filepath.Join(c.options.Assets, etcd), c.dir.join("etcd.log"), c.etcdFlags()...)
	if err != nil {
		return err
	}
	if err := waitReady(ctx, c.etcd, c.etcdURL+"/health", c.files.etcdTLS); err != nil {
		return err
	}
	c.apiserver, err = startProcess(filepath.Join(c.options.Assets, apiserver), c.dir.join("kube-apiserver.log"), c.apiserverFlags(port)...)
	if err != nil {
		return err
	}
	return waitReady(ctx, c.apiserver, c.Endpoint+"/readyz", c.files.adminTLS)
}

// lostPort says whether a process ended because another took the port that was
// free a moment before. A port that the caller fixed is the caller's business.
func (c *ControlPlane) lostPort() bool {
	lost := func(p *child.Child, fixed int) bool {
		return p != nil && fixed == 0 && p.Ended() && strings.Contains(p.Output(), "address already in use")
	}
	return lost(c.etcd, c.options.EtcdPort) || lost(c.apiserver, c.options.Port)
}

// watch notices when a process ends.
func (c *ControlPlane) watch() {
	var first *child.Child
	select {
	case <-c.etcd.Done():
		first = c.etcd
	case <-c.apiserver.Done():
		first = c.apiserver
	}
	if !c.stopping.Load() {
		c.err = ended(first)
	}
	close(c.done)
}

// Done is closed as soon as etcd or kube-apiserver has ended, by Stop or of
// itself. Stop is still to be called then.
func (c *ControlPlane) Done() <-chan struct{} { return c.done }

// Err tells, once Done is closed, which process ended of itself and what it
// wrote last; nil if Stop ended it.
func (c *ControlPlane) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// PIDs are the process IDs of etcd and kube-apiserver by name, for measuring
// what they use.
func (c *ControlPlane) PIDs() map[string]int {
	return map[string]int{etcd: c.etcd.PID, apiserver: c.apiserver.PID}
}

// Stop ends both processes and removes the kubeconfig and, if it is temporary,
// the data directory. When it returns the processes are gone. Calls after the
// first return what the first did.
func (c *ControlPlane) Stop() error { return c.stop() }

func (c *ControlPlane) stopAll() error {
	c.stopping.Store(true)
	return errors.Join(c.stopProcesses(), c.removeKubeconfig(), c.dir.close())
}

func (c *ControlPlane) stopProcesses() error {
	var errs []error
	// kube-apiserver first: without etcd it would not end in order.
	if c.apiserver != nil {
		errs = append(errs, c.apiserver.End(apiserverGrace))
	}
	if c.etcd != nil {
		errs = append(errs, c.etcd.End(etcdGrace))
	}
	return errors.Join(errs...)
}
