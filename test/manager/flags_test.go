// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/hack/child"
)

// A mistake in a flag or file ends the manager with exit code 1 and one line that names the flag or the field and, where
// there is something to choose, what to write.
func TestAMistakeEndsTheManagerWithOneLine(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	taken, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // a listen on loopback never waits
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	account := "accounts:\n- name: local\n  type: local\n"
	relative := f.write("relative.yaml", account+"  local: {stateDir: here}\n")
	cases := map[string]struct {
		args []string
		want []string
		late bool // found by trying, after the manager has begun to say what it does
	}{
		"an unknown log level":               {args: []string{"--log-level=loud"}, want: []string{"--log-level=loud", "debug, info or error"}},
		"a log level that isn't offered":     {args: []string{"--log-level=panic"}, want: []string{"--log-level=panic", "debug, info or error"}},
		"an unknown log format":              {args: []string{"--log-format=xml"}, want: []string{"--log-format=xml", "json or console"}},
		"no workers":                         {args: []string{"--max-concurrent-reconciles=0"}, want: []string{"--max-concurrent-reconciles=0", "at least 1"}},
		"fewer workers than none":            {args: []string{"--max-concurrent-reconciles=-3"}, want: []string{"--max-concurrent-reconciles=-3", "at least 1"}},
		"a word for a number":                {args: []string{"--max-concurrent-reconciles=few"}, want: []string{"--max-concurrent-reconciles", `"few"`}},
		"a word for a truth":                 {args: []string{"--secret-watch=maybe"}, want: []string{"--secret-watch", `"maybe"`}},
		"an empty instance":                  {args: []string{"--instance="}, want: []string{"--instance", "write a name"}},
		"an instance that names no lease":    {args: []string{"--leader-elect", "--instance=a b"}, want: []string{"--instance", "a b"}},
		"an instance that is too long":       {args: []string{"--leader-elect", "--instance=" + strings.Repeat("a", 254)}, want: []string{"--instance"}},
		"a namespace without a name":         {args: []string{"--watch-namespaces=a,,b"}, want: []string{"--watch-namespaces=a,,b", "commas between"}},
		"a namespace with a space":           {args: []string{"--watch-namespaces=a, b"}, want: []string{"--watch-namespaces=a, b", "without spaces"}},
		"a name that no namespace can have":  {args: []string{"--watch-namespaces=Team_A"}, want: []string{"--watch-namespaces", "Team_A"}},
		"an unknown flag":                    {args: []string{"--watch-namespace=a"}, want: []string{"--watch-namespace"}},
		"an image of proxies with a scheme":  {args: []string{"--proxy-image=https://registry.example.com/px:1"}, want: []string{"--proxy-image=https://registry.example.com/px:1", "write it without the scheme", "registry.example.com/squid:6.12"}},
		"no image of proxies":                {args: []string{"--proxy-image="}, want: []string{"--proxy-image=", "write the name of a container image"}},
		"an account's image in upper case":   {args: []string{"--config=" + f.write("image.yaml", "accounts:\n- name: pods\n  type: kubernetes\n  kubernetes: {image: registry.example.com/Px}\n")}, want: []string{"line 4", "accounts[0].kubernetes.image", "registry.example.com/Px", "lower case"}},
		"a stray word":                       {args: []string{"stray"}, want: []string{`"stray"`}},
		"no kubeconfig where one is named":   {args: []string{"--kubeconfig=" + f.dir + "/none"}, want: []string{f.dir + "/none", "--kubeconfig"}},
		"a kubeconfig that is none":          {args: []string{"--kubeconfig=" + f.write("broken-kubeconfig", "{")}, want: []string{"--kubeconfig"}},
		"no cluster at all":                  {args: []string{"--kubeconfig="}, want: []string{"--kubeconfig", "KUBECONFIG"}},
		"a cluster that doesn't answer":      {args: []string{"--kubeconfig=" + f.deadKubeconfig()}, want: []string{"127.0.0.1:1"}},
		"leader election without a place":    {args: []string{"--leader-elect", "--leader-election-namespace="}, want: []string{"--leader-election-namespace"}},
		"a probe address that is none":       {args: []string{"--health-probe-bind-address=nowhere"}, want: []string{"--health-probe-bind-address", "nowhere"}},
		"a probe address that is taken":      {args: []string{"--health-probe-bind-address=" + taken.Addr().String()}, want: []string{"--health-probe-bind-address", taken.Addr().String()}},
		"a metrics address that is none":     {args: []string{"--metrics-bind-address=nowhere"}, want: []string{"--metrics-bind-address", "nowhere"}},
		"a metrics address that is taken":    {args: []string{"--metrics-bind-address=" + taken.Addr().String()}, want: []string{"--metrics-bind-address", taken.Addr().String(), "another manager"}, late: true},
		"a judge address that is none":       {args: []string{"--judge-bind-address=nowhere"}, want: []string{"--judge-bind-address", "nowhere"}},
		"a judge address that is taken":      {args: []string{"--judge-bind-address=" + taken.Addr().String()}, want: []string{"--judge-bind-address", taken.Addr().String(), "in use"}},
		"a judge address without a host":     {args: []string{"--judge-bind-address=:8082"}, want: []string{"--judge-bind-address=:8082", "HOST", "--judge-url"}},
		"a judge at every address":           {args: []string{"--judge-bind-address=0.0.0.0:8082"}, want: []string{"--judge-bind-address=0.0.0.0:8082", "HOST", "--judge-url"}},
		"a judge URL that is none":           {args: []string{"--judge-url=judge:8080"}, want: []string{"--judge-url", "http or https"}},
		"a judge at a port that there isn't": {args: []string{"--judge-url=http://judge:80800/"}, want: []string{"--judge-url", "1 to 65535", "such as http"}},
		"a target with a password":           {args: []string{"--health-target=http://user:secret@target/"}, want: []string{"--health-target", "without a user name"}},
		"a target of another scheme":         {args: []string{"--health-target=ftp://target/"}, want: []string{"--health-target", "http or https"}},
		"no time between probes":             {args: []string{"--health-interval=0s"}, want: []string{"--health-interval=0s", "at least 100ms"}},
		"no time to boot":                    {args: []string{"--boot-deadline=1s"}, want: []string{"--boot-deadline=1s", "at least 30s"}},
		"a word for a duration":              {args: []string{"--health-interval=often"}, want: []string{"--health-interval", `"often"`}},
		"probes that overlap":                {args: []string{"--health-timeout=2s"}, want: []string{"--health-timeout=2s", "--health-interval", "1s"}},
		"a budget beyond the whole":          {args: []string{"--disruption-budget=150%"}, want: []string{"--disruption-budget=150%", "10%"}},
		"a budget below nothing":             {args: []string{"--disruption-budget=-1"}, want: []string{"--disruption-budget=-1", "a number"}},
		"a word for a budget":                {args: []string{"--disruption-budget=few"}, want: []string{"--disruption-budget=few", "a number"}},
		"a name for addresses":               {args: []string{"--health-deny-cidr=loopback"}, want: []string{"--health-deny-cidr=loopback", "192.0.2.0/24"}},
		"no certificate where one is named":  {args: []string{"--metrics-cert-path=" + f.dir + "/none"}, want: []string{"--metrics-cert-path", f.dir + "/none"}},
		"no file where one is named":         {args: []string{"--config=" + f.dir + "/none.yaml"}, want: []string{"--config", f.dir + "/none.yaml"}},
		"a folder for a file":                {args: []string{"--config=" + f.dir}, want: []string{"--config", f.dir}},
		"a file that isn't YAML":             {args: []string{"--config=" + f.write("no.yaml", "accounts: [")}, want: []string{"no.yaml", "line 1"}},
		"an unknown field":                   {args: []string{"--config=" + f.write("field.yaml", account+"  region: eu\n")}, want: []string{"field.yaml", "line 4", "accounts[0].region", "known here: name, type, allowedNamespaces, limits, orphans, local"}},
		"an unknown field of a section":      {args: []string{"--config=" + f.write("section.yaml", account+"  local: {statedir: /x}\n")}, want: []string{"line 4", "accounts[0].local.statedir", "stateDir"}},
		"an unknown type":                    {args: []string{"--config=" + f.write("type.yaml", "accounts:\n- name: a\n  type: gpc\n")}, want: []string{"line 3", "accounts[0].type", `"gpc"`, "use one of: kubernetes, local"}},
		"a state directory that is relative": {args: []string{"--config=" + relative}, want: []string{"line 4", "accounts[0].local.stateDir", "absolute path"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := f.fails(t, c.args...)
			require.Equal(t, 1, code, "%s", stderr)
			require.Empty(t, stdout)
			require.NotContains(t, stderr, "goroutine")
			require.NotContains(t, stderr, "stacktrace")
			if c.late {
				stderr = child.Tail(stderr, 1) + "\n"
			}
			require.Equal(t, 1, strings.Count(stderr, "\n"), "lines:\n%s", stderr)
			require.True(t, strings.HasPrefix(stderr, "Error: "), stderr)
			for _, w := range c.want {
				require.Contains(t, stderr, w)
			}
		})
	}
}

func TestEveryMistakeOfAFileIsToldAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	path := f.write("two.yaml", "accounts:\n- name: A\n  type: local\n- name: b\n  type: x\n")
	code, _, stderr := f.fails(t, "--config="+path)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "line 2: accounts[0].name")
	require.Contains(t, stderr, "line 5: accounts[1].type")
}

// fails runs a manager that is to end by itself.
func (f *fleet) fails(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	const limit = 20 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	one := *f
	if strings.HasPrefix(args[0], "--watch-namespaces") {
		one.watch = nil // the flag adds up
	}
	all := one.args(&manager{probes: freeAddress(t), metrics: freeAddress(t), judge: freeAddress(t)})
	cmd := exec.CommandContext(ctx, cluster.binary, append(all, args...)...)
	cmd.Env = []string{"HOME=" + filepath.Join(f.dir, "home"), "GORACE=atexit_sleep_ms=0"}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	require.NoError(t, ctx.Err(), "the manager goes on:\n%s", errOut.String())
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
		require.False(t, errors.Is(err, exec.ErrNotFound))
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

// deadKubeconfig is of a cluster where nobody listens.
func (f *fleet) deadKubeconfig() string {
	f.t.Helper()
	return f.write("dead-kubeconfig", `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
`)
}
