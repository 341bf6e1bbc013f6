// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// realAssets are the real binaries; the first call ever builds them.
func realAssets(t *testing.T) string {
	t.Helper()
	dir, err := Assets(t.Context(), t.Output())
	require.NoError(t, err)
	return dir
}

func start(t *testing.T, options Options) *ControlPlane {
	t.Helper()
	options.Assets, options.UnsafeNoFsync = realAssets(t), true
	c, err := Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	return c
}

// kubectl runs as a user would, with the kubeconfig and input given.
func (c *ControlPlane) kubectl(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(c.options.Assets, kubectl), append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	output, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

func (c *ControlPlane) mustKubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	output, err := c.kubectl(t, input, args...)
	require.NoError(t, err, output)
	return output
}

func (c *ControlPlane) userOfToken(t *testing.T, token string) string {
	t.Helper()
	review := fmt.Sprintf(`{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": %q}}`, token)
	return c.mustKubectl(t, review, "create", "-f", "-", "-o", "jsonpath={.status.user.username}")
}

func TestAControlPlaneIsStoppedAndStartedAgainOnItsData(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	options := Options{DataDir: filepath.Join(t.TempDir(), "data"), Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	c := start(t, options)
	m, err := openModules()
	require.NoError(t, err)
	require.Contains(t, c.mustKubectl(t, "", "get", "--raw", "/version"), `"gitVersion": "`+m.minor()+".")
	info, err := os.Stat(c.Kubeconfig)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it holds the key of an admin")

	c.mustKubectl(t, "", "create", "configmap", "kept", "--from-literal=a=b")
	c.mustKubectl(t, "", "create", "serviceaccount", "robot")
	token := c.mustKubectl(t, "", "create", "token", "robot")
	require.Equal(t, "system:serviceaccount:default:robot", c.userOfToken(t, token), "TokenReview works")

	require.NoError(t, c.Stop())
	require.NoError(t, c.Stop(), "a second call does no harm")
	require.NoError(t, c.Err(), "an end by Stop is no failure")
	requireGone(t, c)
	require.NoFileExists(t, c.Kubeconfig)

	c = start(t, options)
	require.Equal(t, "b", c.mustKubectl(t, "", "get", "configmap", "kept", "-o", "jsonpath={.data.a}"))
	require.Equal(t, "system:serviceaccount:default:robot", c.userOfToken(t, token), "an earlier token stays good")
	_, err = Start(t.Context(), Options{Assets: c.options.Assets, DataDir: options.DataDir})
	require.ErrorContains(t, err, "is in use by another control plane")
	require.NoError(t, c.Stop())
	requireGone(t, c)
}

func TestAControlPlaneAsksEveryoneWhoTheyAre(t *testing.T) {
	c := start(t, Options{APIServerFlags: []string{"--anonymous-auth=false"}})
	output, err := c.kubectl(t, "", "get", "secrets", "--as=somebody")
	require.Error(t, err)
	require.Contains(t, output, `User "somebody" cannot list resource "secrets"`)
	output, err = c.kubectl(t, "", "get", "namespaces", "--kubeconfig", os.DevNull, "--server", c.Endpoint, "--insecure-skip-tls-verify", "--username=x", "--password=x")
	require.Error(t, err)
	require.Contains(t, output, "You must be logged in", "the added flag is in force: anonymous requests end here")

	// etcd lets in no one without a certificate of its own authority.
	etcdTLS, adminTLS := c.files.etcdTLS, c.files.adminTLS
	require.NoError(t, probe(t.Context(), newProber(etcdTLS), c.etcdURL+"/health"))
	adminTLS.RootCAs = etcdTLS.RootCAs
	require.Error(t, probe(t.Context(), newProber(adminTLS), c.etcdURL+"/health"), "not even the cluster's admin")

	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, address := range addresses {
		ip, ok := address.(*net.IPNet)
		if !ok || ip.IP.IsLoopback() || ip.IP.To4() == nil {
			continue
		}
		for _, url := range []string{c.Endpoint, c.etcdURL} {
			_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "https://"))
			require.NoError(t, err)
			conn, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", net.JoinHostPort(ip.IP.String(), port))
			if err == nil {
				_ = conn.Close()
			}
			require.Error(t, err, "%s answers at %s: only loopback may", url, ip.IP)
		}
	}
}

func TestAProcessThatDiesIsToldWithItsLastLines(t *testing.T) {
	c := start(t, Options{})
	require.NoError(t, c.Err())
	require.NoError(t, syscall.Kill(c.PIDs()[apiserver], syscall.SIGKILL))
	<-c.Done()
	require.ErrorContains(t, c.Err(), "kube-apiserver ended (signal: killed); its last lines:\n  ")
	require.NoError(t, c.Stop())
	requireGone(t, c)
	require.NoDirExists(t, c.dir.path, "a temporary data directory goes with the control plane")
}

func TestAStartThatCannotSucceedLeavesNothing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	takenAddress, ok := taken.Addr().(*net.TCPAddr)
	require.True(t, ok)
	foreign := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(foreign, []byte("apiVersion: v1\n"), 0o600))
	cases := map[string]struct {
		options Options
		want    string
	}{
		"a fixed port that is taken":        {options: Options{Port: takenAddress.Port}, want: "address already in use"},
		"a flag that kube-apiserver lacks":  {options: Options{APIServerFlags: []string{"--no-such-flag"}}, want: "unknown flag: --no-such-flag"},
		"a kubeconfig that is someone's":    {options: Options{Kubeconfig: foreign}, want: "name another file"},
		"a folder without the binaries":     {options: Options{Assets: t.TempDir()}, want: "start etcd: "},
		"a data directory that can't exist": {options: Options{DataDir: filepath.Join(foreign, "data")}, want: "create data directory: "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			if c.options.Assets == "" {
				c.options.Assets = realAssets(t)
			}
			_, err := Start(t.Context(), c.options)
			require.ErrorContains(t, err, c.want)
			requireEmpty(t, temporary)
			text, err := os.ReadFile(foreign)
			require.NoError(t, err)
			require.Equal(t, "apiVersion: v1\n", string(text))
		})
	}
}

func TestAStartThatIsInterruptedLeavesNothing(t *testing.T) {
	for _, moment := range []string{"etcd.log", "kube-apiserver.log"} {
		t.Run("when "+moment+" has appeared", func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			assets, temporary := realAssets(t), t.TempDir()
			t.Setenv("TMPDIR", temporary)
			ctx, interrupt := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := Start(ctx, Options{Assets: assets, UnsafeNoFsync: true})
				done <- err
			}()
			require.Eventually(t, func() bool {
				found, err := filepath.Glob(filepath.Join(temporary, "*", moment))
				return err == nil && len(found) == 1
			}, patience, poll)
			interrupt()
			require.ErrorIs(t, <-done, context.Canceled)
			requireEmpty(t, temporary)
		})
	}
}

// requireGone checks what Stop promises: no process is left when it returns.
func requireGone(t *testing.T, c *ControlPlane) {
	t.Helper()
	for name, pid := range c.PIDs() {
		require.True(t, errors.Is(syscall.Kill(pid, 0), syscall.ESRCH), "%s (%d) is still there", name, pid)
	}
}
