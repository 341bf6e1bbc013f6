// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

const (
	temporaryPrefix = "proxy-operator-control-plane-"
	lockName        = "lock"
	// A younger temporary directory may be one whose owner is about to lock it.
	staleAfter = time.Hour
)

// dataDir is the directory of one control plane, locked while it is in use.
type dataDir struct {
	path      string
	temporary bool
	unlock    func()
}

// openDataDir opens the directory at path, made when absent; "" stands for a
// temporary one, which close removes.
func openDataDir(path string, now clock.PassiveClock) (*dataDir, error) {
	d := &dataDir{path: path, temporary: path == ""}
	var err error
	if d.temporary {
		removeStale(now)
		d.path, err = os.MkdirTemp("", temporaryPrefix)
	} else if d.path, err = filepath.Abs(path); err == nil {
		err = os.MkdirAll(d.path, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	d.unlock, err = tryLock(d.join(lockName))
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("data directory %s is in use by another control plane", d.path)
	}
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	return d, nil
}

// removeStale removes temporary directories of processes that were killed:
// each holds over 100 MB. What can't be removed isn't ours.
func removeStale(now clock.PassiveClock) {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*")) // the pattern is well formed
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || now.Since(info.ModTime()) < staleAfter || !isMine(info) {
			continue
		}
		unlock, err := tryLock(filepath.Join(dir, lockName))
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir)
		unlock()
	}
}

func isMine(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

func (d *dataDir) join(name string) string { return filepath.Join(d.path, name) }

// close gives the directory free, and removes it if it is temporary.
func (d *dataDir) close() error {
	defer d.unlock()
	if !d.temporary {
		return nil
	}
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("remove data directory: %w", err)
	}
	return nil
}

// pkiFiles are the keys and certificates of one start: files by their names
// for the processes, texts and TLS settings for us.
type pkiFiles struct {
	clientCA, etcdCA, serviceAccounts               string
	serving, etcdServing, etcdClient, kubeletClient struct{ cert, key string }

	cluster           *authority
	ca                []byte
	admin             keyPair
	adminTLS, etcdTLS *tls.Config
}

// issue makes the certificates of a start. The authorities and the key of
// service accounts are kept, so that earlier credentials stay good. etcd has an
// authority of its own: who may use the API must not thereby use etcd.
func (d *dataDir) issue(now time.Time, addresses ...net.IP) (*pkiFiles, error) {
	pki := d.join("pki")
	if err := os.MkdirAll(pki, 0o700); err != nil {
		return nil, fmt.Errorf("create certificates: %w", err)
	}
	cluster, err := loadAuthority(pki, "ca", now)
	if err != nil {
		return nil, err
	}
	store, err := loadAuthority(pki, "etcd-ca", now)
	if err != nil {
		return nil, err
	}
	f := &pkiFiles{
		clientCA: filepath.Join(pki, "ca.crt"), etcdCA: filepath.Join(pki, "etcd-ca.crt"),
		serviceAccounts: filepath.Join(pki, "service-accounts.key"), ca: cluster.certPEM, cluster: cluster,
	}
	if _, err := loadKey(f.serviceAccounts); err != nil {
		return nil, err
	}
	serving, err1 := cluster.serving("kube-apiserver", addresses, "kubernetes", "kubernetes.default", "kubernetes.default.svc")
	etcdServing, err2 := store.serving("etcd", nil)
	etcdClient, err3 := store.client("kube-apiserver")
	admin, err4 := cluster.client("admin", "system:masters")
	kubeletClient, err5 := cluster.client("kube-apiserver-kubelet-client", "system:masters")
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	f.admin = admin
	f.kubeletClient, err5 = kubeletClient.write(pki, "kubelet-client")
	f.serving, err1 = serving.write(pki, "kube-apiserver")
	f.etcdServing, err2 = etcdServing.write(pki, "etcd")
	f.etcdClient, err3 = etcdClient.write(pki, "etcd-client")
	f.adminTLS, err4 = cluster.clientTLS(admin)
	var err6 error
	f.etcdTLS, err6 = store.clientTLS(etcdClient)
	return f, errors.Join(err1, err2, err3, err4, err5, err6)
}

func (k keyPair) write(dir, name string) (files struct{ cert, key string }, err error) {
	files.cert, files.key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	return files, errors.Join(writePrivate(files.cert, k.cert), writePrivate(files.key, k.key))
}

// clientTLS is for talking to a server of this authority as the owner of k.
func (a *authority) clientTLS(k keyPair) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(k.cert, k.key)
	if err != nil {
		return nil, fmt.Errorf("use client certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
