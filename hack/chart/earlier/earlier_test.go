// SPDX-License-Identifier: Apache-2.0

package earlier

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clone is a scratch clone.
type clone struct {
	t   *testing.T
	dir string
}

func newClone(t *testing.T) clone {
	t.Helper()
	for _, name := range []string{"GIT_AUTHOR", "GIT_COMMITTER"} {
		t.Setenv(name+"_NAME", "test")
		t.Setenv(name+"_EMAIL", "test@example.com")
	}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	c := clone{t, t.TempDir()}
	c.git("init", "--quiet")
	return c
}

func (c clone) git(args ...string) string {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), "git", append([]string{"-C", c.dir}, args...)...).CombinedOutput()
	require.NoError(c.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// commit makes a commit whose chart has the description, or no chart.
func (c clone) commit(description string) string {
	c.t.Helper()
	chart := filepath.Join(c.dir, filepath.FromSlash(folder))
	require.NoError(c.t, os.MkdirAll(chart, 0o700))
	if description != "" {
		text := "apiVersion: v2\nname: proxy-operator\nversion: 1.2.3\nappVersion: 1.2.3\ndescription: " + description + "\n"
		require.NoError(c.t, os.WriteFile(filepath.Join(chart, "Chart.yaml"), []byte(text), 0o600))
	}
	c.git("add", ".")
	c.git("commit", "--quiet", "--allow-empty", "--message=commit")
	return c.git("rev-parse", "HEAD")
}

func TestTheEarlierChartIsThatOfAReleaseOrElseTheOldest(t *testing.T) {
	for name, c := range map[string]struct {
		why  string
		make func(c clone) (dir, commit string)
		want string
	}{
		"nothing was released": {"then the longest way is upgraded", func(c clone) (string, string) {
			c.commit("")
			first := c.commit("first")
			c.commit("second")
			return c.dir, first
		}, "first"},
		"two releases": {"the newest is what users have; by number, not by name", func(c clone) (string, string) {
			c.commit("first")
			c.git("tag", "v0.9.0")
			c.commit("second")
			c.git("tag", "v0.10.0")
			c.commit("third")
			return c.dir, "v0.10.0"
		}, "second"},
		"HEAD is a release": {"nobody upgrades from what they have", func(c clone) (string, string) {
			c.commit("first")
			c.git("tag", "v0.1.0")
			c.commit("second")
			c.git("tag", "v0.2.0")
			return c.dir, "v0.1.0"
		}, "first"},
		"a release from before the chart": {"there is nothing to install", func(c clone) (string, string) {
			c.commit("")
			c.git("tag", "v0.1.0")
			first := c.commit("first")
			c.commit("second")
			return c.dir, first
		}, "first"},
		"a release of another branch": {"its chart may be newer", func(c clone) (string, string) {
			first := c.commit("first")
			c.git("checkout", "--quiet", "-b", "other")
			c.commit("other")
			c.git("tag", "v0.3.0")
			c.git("checkout", "--quiet", "-")
			c.commit("second")
			return c.dir, first
		}, "first"},
		"a shallow clone": {"it has one commit", func(c clone) (string, string) {
			c.commit("first")
			head := c.commit("second")
			shallow := filepath.Join(c.t.TempDir(), "shallow")
			c.git("clone", "--quiet", "--depth=1", "file://"+c.dir, shallow)
			return shallow, head
		}, "second"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, want := c.make(newClone(t))
			chart, commit, err := Chart(t.Context(), dir)
			require.NoError(t, err)
			require.Equal(t, want, commit, c.why)
			require.Equal(t, c.want, chart.Metadata.Description, c.why)
			require.Equal(t, []string{Version, Version}, []string{chart.Metadata.Version, chart.Metadata.AppVersion})
		})
	}
}

func TestWithoutAnEarlierChartItSaysSo(t *testing.T) {
	c := newClone(t)
	c.commit("")
	_, _, err := Chart(t.Context(), c.dir)
	require.EqualError(t, err, "no commit of this clone has charts/proxy-operator")
	_, _, err = Chart(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "git tag: ")
}
