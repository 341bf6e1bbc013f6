// SPDX-License-Identifier: Apache-2.0

package daemons_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/internal/health/probe"
)

const (
	// packages hold what these tests start.
	packages = "squid tinyproxy dante-server libnss-wrapper"
	patience = 30 * time.Second
	login    = "someone"
	password = "correct"
	// passwordHash is that of password, by crypt's MD5, which all of them read.
	passwordHash = "$1$proxyope$OKbmlujPaaSwhFu45CZBC." // #nosec G101 -- opens nothing but what these tests start
	// forbidden is a host that every daemon is told to refuse.
	forbidden = "127.0.0.66"
)

// find looks for a file that a package brings.
func find(tb testing.TB, patterns ...string) string {
	tb.Helper()
	for _, pattern := range patterns {
		if !strings.Contains(pattern, "/") {
			if path, err := exec.LookPath(pattern); err == nil {
				return path
			}
			pattern = "/usr/sbin/" + pattern
		}
		found, err := filepath.Glob(pattern)
		require.NoError(tb, err)
		if len(found) > 0 {
			return found[0]
		}
	}
	require.FailNow(tb, "not found: "+strings.Join(patterns, " or "), "install the Debian packages %s", packages)
	return ""
}

// daemon is one running proxy.
type daemon struct {
	probe.Proxy
	cmd *exec.Cmd
}

// kind makes the command of a proxy that listens on port and asks for login and
// password if auth is true. dir is its own.
type kind func(tb testing.TB, dir string, port int, auth bool) *exec.Cmd

// start runs a daemon until the test ends.
func start(tb testing.TB, protocol probe.Protocol, kind kind, auth bool) daemon {
	tb.Helper()
	dir := folder(tb)
	port := freePort(tb)
	cmd := kind(tb, dir, port, auth)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := os.Create(filepath.Join(dir, "output"))
	require.NoError(tb, err)
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(tb, cmd.Start())
	tb.Cleanup(func() {
		end(tb, cmd)
		require.NoError(tb, out.Close())
		if tb.Failed() {
			for _, name := range []string{"output", "cache.log"} {
				text, _ := os.ReadFile(filepath.Join(dir, name)) // not each has both
				tb.Logf("%s of %s:\n%s", name, cmd.Path, text)
			}
		}
	})
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	require.Eventually(tb, func() bool {
		conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
		return err == nil && conn.Close() == nil
	}, patience, 20*time.Millisecond, "%s doesn't listen", cmd.Path)
	d := daemon{probe.Proxy{Host: "127.0.0.1", Port: port, Protocol: protocol}, cmd}
	if auth {
		d.Username, d.Password = login, password
	}
	return d
}

// signal reaches the daemon and the processes that it made.
func (d daemon) signal(tb testing.TB, s syscall.Signal) {
	tb.Helper()
	require.NoError(tb, syscall.Kill(-d.cmd.Process.Pid, s))
}

// end leaves none of the daemon's processes. It kills: squid would take two
// seconds to say farewell.
func end(tb testing.TB, cmd *exec.Cmd) {
	tb.Helper()
	group := cmd.Process.Pid
	_ = syscall.Kill(-group, syscall.SIGKILL) // a test may have ended it
	_ = cmd.Wait()                            // tells of the kill
	require.Eventually(tb, func() bool { return !alive(group) }, patience, 10*time.Millisecond, "processes of %s are left", cmd.Path)
}

// alive tells whether a process group has a process that isn't a zombie: orphans
// wait for whoever is PID 1.
func alive(group int) bool {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return true
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// PID (NAME) STATE PPID PGRP ...; a name may have blanks and brackets.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 2 && fields[0] != "Z" && fields[2] == strconv.Itoa(group) {
			return true
		}
	}
	return false
}

// folder is one that a daemon may use that gives its rights up.
func folder(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		err := os.Chmod(d, 0o755) // #nosec G302 -- nothing secret is in it
		if errors.Is(err, fs.ErrPermission) {
			break
		}
		require.NoError(tb, err)
	}
	require.NoError(tb, os.Chmod(dir, 0o777)) // #nosec G302 -- the same
	return dir
}

func freePort(tb testing.TB) int {
	tb.Helper()
	// A daemon that is just being started would hold the listener a moment longer.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	require.NoError(tb, listener.Close())
	address, ok := listener.Addr().(*net.TCPAddr)
	require.True(tb, ok)
	return address.Port
}

// write makes a file of a daemon.
func write(tb testing.TB, dir, name, format string, args ...any) string {
	tb.Helper()
	path := filepath.Join(dir, name)
	require.NoError(tb, os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o644)) // #nosec G306 -- another user reads it
	return path
}

// squid with what rules says before its last word.
func squidWith(helper, rules string) kind {
	return func(tb testing.TB, dir string, port int, auth bool) *exec.Cmd {
		tb.Helper()
		access := "http_access allow all"
		if auth {
			program := find(tb, "/usr/lib*/squid/"+helper, "/usr/libexec/squid/"+helper)
			users := write(tb, dir, "users", "%s:%s\n", login, passwordHash)
			if helper == "basic_fake_auth" {
				users = ""
			}
			access = fmt.Sprintf("auth_param basic program %s %s\nauth_param basic children 1 startup=1\nacl known proxy_auth REQUIRED\nhttp_access allow known\nhttp_access deny all", program, users)
		}
		as := ""
		if os.Getuid() == 0 {
			as = "cache_effective_user proxy"
		}
		conf := write(tb, dir, "squid.conf", `http_port 127.0.0.1:%d
visible_hostname squid.test
pid_filename none
access_log none
cache_store_log none
cache_log %s/cache.log
coredump_dir %s
netdb_filename none
pinger_enable off
cache_mem 8 MB
shutdown_lifetime 0 seconds
%s
acl forbidden dst %s
http_access deny forbidden
%s
%s
`, port, dir, dir, as, forbidden, rules, access)
		memory := "squid" + strconv.Itoa(port) // the name of it, which outlives a kill
		tb.Cleanup(func() {
			left, err := filepath.Glob("/dev/shm/" + memory + "-*")
			require.NoError(tb, err)
			for _, path := range left {
				require.NoError(tb, os.Remove(path))
			}
		})
		return exec.CommandContext(context.Background(), find(tb, "squid"), "-N", "-f", conf, "-n", memory)
	}
}

func squid(tb testing.TB, dir string, port int, auth bool) *exec.Cmd {
	tb.Helper()
	return squidWith("basic_ncsa_auth", "")(tb, dir, port, auth)
}

func tinyproxyWith(rules string) kind {
	return func(tb testing.TB, dir string, port int, auth bool) *exec.Cmd {
		tb.Helper()
		if auth {
			rules += "\nBasicAuth " + login + " " + password
		}
		filter := write(tb, dir, "filter", "^%s$\n", strings.ReplaceAll(forbidden, ".", `\.`))
		conf := write(tb, dir, "tinyproxy.conf", "Port %d\nListen 127.0.0.1\nTimeout 30\nMaxClients 50\nLogLevel Critical\nFilter \"%s\"\nFilterExtended On\n%s\n", port, filter, rules)
		return exec.CommandContext(context.Background(), find(tb, "tinyproxy"), "-d", "-c", conf)
	}
}

func tinyproxy(tb testing.TB, dir string, port int, auth bool) *exec.Cmd {
	tb.Helper()
	return tinyproxyWith("")(tb, dir, port, auth)
}

func dante(tb testing.TB, dir string, port int, auth bool) *exec.Cmd {
	tb.Helper()
	me, err := user.Current()
	require.NoError(tb, err)
	low, method := me.Username, "none"
	if me.Uid == "0" {
		low = "nobody"
	}
	if auth {
		method = "username"
	}
	conf := write(tb, dir, "danted.conf", `logoutput: stderr
internal: 127.0.0.1 port = %d
external: lo
clientmethod: none
socksmethod: %s
user.privileged: %s
user.unprivileged: %s
client pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }
socks block { from: 0.0.0.0/0 to: %s/32 }
socks pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }
`, port, method, me.Username, low, forbidden)
	cmd := exec.CommandContext(context.Background(), find(tb, "danted", "sockd"), "-f", conf)
	if auth {
		all, err := os.ReadFile("/etc/passwd")
		require.NoError(tb, err)
		cmd.Env = append(os.Environ(),
			"LD_PRELOAD="+find(tb, "/usr/lib/*/libnss_wrapper.so", "/usr/lib64/libnss_wrapper.so", "/usr/lib/libnss_wrapper.so"),
			"NSS_WRAPPER_PASSWD="+write(tb, dir, "passwd", "%s:x:47110:47110::/:/bin/false\n%s", login, all),
			"NSS_WRAPPER_SHADOW="+write(tb, dir, "shadow", "%s:%s:19000:0:99999:7:::\n", login, passwordHash),
			"NSS_WRAPPER_GROUP=/etc/group")
	}
	return cmd
}
