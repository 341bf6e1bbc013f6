// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
)

const (
	patience = 30 * time.Second // for what takes milliseconds on a quiet machine
	poll     = 10 * time.Millisecond
)

// fakeGo stands for the go command: it litters its work folder, notes each
// build's package in the file $FAKE_GO_LOG, writes the first half of the
// output, and then does as $FAKE_GO says.
const fakeGo = `#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
touch "$GOTMPDIR/object"
echo "$1" >> "$FAKE_GO_LOG"
printf '#!/bin/sh' > "$out"
chmod +x "$out"
case $FAKE_GO in
fail) echo "$FAKE_GO_STDERR" >&2; exit 1 ;;
hang) exec sleep 300 ;;
wait) while [ ! -e "$FAKE_GO_LOG.go-on" ]; do sleep 0.02; done ;;
esac
printf '\nexit 0\n' >> "$out"
`

// goLog is what a fake go command was asked to build.
type goLog struct {
	t    *testing.T
	file string
}

func installFakeGo(t *testing.T, behaviour string) *goLog {
	t.Helper()
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte(fakeGo), 0o700)) //nolint:gosec // it has to be executable
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	log := &goLog{t: t, file: filepath.Join(bin, "log")}
	t.Setenv("FAKE_GO_LOG", log.file)
	t.Setenv("FAKE_GO", behaviour)
	return log
}

func (l *goLog) built() []string {
	text, err := os.ReadFile(l.file)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(l.t, err)
	return strings.Fields(string(text))
}

func (l *goLog) letGoOn() {
	require.NoError(l.t, os.WriteFile(l.file+".go-on", nil, 0o600))
}

// fakeModules is a checkout that pins made-up versions.
func fakeModules(t *testing.T) *modules {
	t.Helper()
	m := &modules{repository: t.TempDir()}
	for module, requirement := range map[string]string{
		"kubernetes": "k8s.io/kubernetes v1.99.1", "etcd": "go.etcd.io/etcd/server/v3 v3.99.0",
		"containerd": "github.com/containerd/containerd/v2 v2.99.0", "runc": "github.com/opencontainers/runc v1.99.0",
		"cni": "github.com/containernetworking/plugins v1.99.0",
	} {
		require.NoError(t, os.MkdirAll(m.dir(module), 0o750))
		text := "module example.com/" + module + "\n\ngo 1.26.0\n\nrequire " + requirement + " // indirect\n"
		require.NoError(t, os.WriteFile(filepath.Join(m.dir(module), "go.mod"), []byte(text), 0o600))
	}
	require.NoError(t, m.readVersions())
	return m
}

// binaries fills a folder with files that look like the named binaries.
func binaries(t *testing.T, dir string, names ...string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o750))
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700)) //nolint:gosec // it has to be executable
	}
	return dir
}

// log is a writer that may be read while it is written.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func logged() (*log, *progress) {
	l := &log{}
	return l, &progress{out: l, clock: clock.RealClock{}, every: inLog}
}
