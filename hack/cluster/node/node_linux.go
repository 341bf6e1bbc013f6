// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/child"
	"github.com/proxy-operator/proxy-operator/hack/cluster/controlplane"
	"github.com/proxy-operator/proxy-operator/hack/image/oci"
	"github.com/proxy-operator/proxy-operator/hack/image/product"
	"github.com/proxy-operator/proxy-operator/hack/operator"
	"github.com/proxy-operator/proxy-operator/internal/processlock"
)

const (
	// startTimeout is ten times what a start takes on a loaded machine.
	startTimeout = 3 * time.Minute
	pauseImage   = "localhost/pause:1"
	homePoll     = time.Second
	// goWork is where the go command keeps what it is at, and leaves it when it is killed.
	goWork = "GOTMPDIR"
)

// Node is a running node.
type Node struct {
	home    home
	config  config
	binary  string
	lock    *processlock.Lock // never released: it ends with the process
	janitor *janitor
	first   *exec.Cmd     // the first process inside
	done    chan struct{} // closed when it has ended
}

// Up starts a node and returns once it takes pods. ctx bounds the start only. When Up fails nothing is left.
func Up(ctx context.Context, o Options) (*Node, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if err := requirements(); err != nil {
		return nil, err
	}
	if err := sweep(); err != nil {
		_, _ = fmt.Fprintf(o.Log, "  left alone, as it can't be removed: %v\n", err) // it's not in our way
	}
	n := &Node{done: make(chan struct{})}
	var err error
	if n.binary, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find the own binary: %w", err)
	}
	// The folder comes before all that takes time: by it Down finds us.
	if n.home, err = newHome(); err != nil {
		return nil, err
	}
	if n.lock, err = processlock.Acquire(n.home.join(ownerLock)); err != nil {
		return nil, errors.Join(err, n.home.remove())
	}
	if n.janitor, err = n.home.startJanitor(n.binary); err != nil {
		return nil, errors.Join(err, n.home.remove())
	}
	if n.config, err = n.provide(ctx, o); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %s", startTimeout))
	defer cancel()
	if err := n.start(ctx, o.Log); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	go n.endWithHome(o.Log)
	return n, nil
}

// endWithHome ends the node when its folder has been removed, as by something that tidies up /tmp: nobody can find it any more.
func (n *Node) endWithHome(log io.Writer) {
	poll := time.NewTicker(homePoll)
	defer poll.Stop()
	for {
		select {
		case <-n.done:
			return
		case <-poll.C:
		}
		if _, err := os.Stat(n.home.join(ownerLock)); errors.Is(err, os.ErrNotExist) {
			_, _ = fmt.Fprintf(log, "the node's folder %s has been removed: ending the node\n", n.home.dir) // nobody to tell if this fails
			_ = n.first.Process.Kill()                                                                      // it may have ended
			return
		}
	}
}

// provide builds, or finds in the cache, what runs on the node.
func (n *Node) provide(ctx context.Context, o Options) (c config, err error) {
	if os.Getenv(goWork) == "" {
		// So that what a killed build leaves goes with the node's folder.
		if err := os.Setenv(goWork, n.home.dir); err != nil {
			return c, err
		}
	}
	if c.Assets, err = controlplane.Assets(ctx, o.Log); err != nil {
		return c, err
	}
	if c.NodeAssets, err = controlplane.NodeAssets(ctx, o.Log); err != nil {
		return c, err
	}
	if o.AuditPolicy != "" {
		c.AuditPolicy, err = filepath.Abs(o.AuditPolicy)
	}
	return c, err
}

// writePause makes the image of the process that every pod has. No registry can be reached from inside.
func (n *Node) writePause(ctx context.Context) error {
	root, err := operator.Checkout()
	if err != nil {
		return err
	}
	data, err := product.Compile(ctx, root, "./hack/cluster/node/pause", runtime.GOOS, runtime.GOARCH, "")
	if err != nil {
		return err
	}
	file := n.home.join("pause.tar")
	n.config.Images = append(n.config.Images, file)
	_, err = product.Save(file, pauseImage, oci.Image{
		OS: runtime.GOOS, Architecture: runtime.GOARCH, User: product.User, Entrypoint: []string{"/pause"},
		Files: []oci.File{{Path: "pause", Mode: 0o755, Data: data}},
	})
	return err
}

// start makes the first process, puts it into the node's cgroups, and lets it go on.
func (n *Node) start(ctx context.Context, log io.Writer) error {
	if err := n.writePause(ctx); err != nil {
		return err
	}
	groups, err := planCgroups(filepath.Base(n.home.dir))
	if err != nil {
		return err
	}
	if err := makeCgroups(groups); err != nil {
		return err
	}
	n.config.Cgroups = groups
	if err := n.home.save(settings, n.config); err != nil {
		return err
	}
	goOn, reports, err := n.launch()
	if err != nil {
		return err
	}
	defer func() { _ = reports.Close() }()
	pid := n.first.Process.Pid
	if err := errors.Join(enterCgroups(groups, pid), os.WriteFile(n.home.join(initPID), []byte(strconv.Itoa(pid)), 0o600)); err != nil {
		return err
	}
	if err := goOn.Close(); err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	return n.await(ctx, reports, log)
}

// launch starts the first process in namespaces of its own. It waits until goOn is closed, and reports what it does.
func (n *Node) launch() (goOn io.Closer, reports *os.File, err error) {
	reports, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("start the node: %w", err)
	}
	defer func() { _ = theirs.Close() }()
	out, err := os.OpenFile(n.home.log("node"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, errors.Join(err, reports.Close())
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(n.binary, stageLaunch, n.home.dir) //nolint:noctx // it outlives the call and is ended by Stop
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = out, out, []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	}
	if goOn, err = cmd.StdinPipe(); err != nil {
		return nil, nil, errors.Join(err, reports.Close())
	}
	started := make(chan error, 1)
	go func() {
		// The kernel ties the child to the thread that started it (golang/go#27505): keep that thread until it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start the node in namespaces of its own: %w; it takes root with CAP_SYS_ADMIN, and a kernel "+
				"with mount, network, process, IPC and UTS namespaces", err)
			return
		}
		n.first = cmd
		started <- nil
		_ = cmd.Wait() // killed, mostly; what it had to say is in its log
		close(n.done)
	}()
	if err := <-started; err != nil {
		return nil, nil, errors.Join(err, reports.Close())
	}
	return goOn, reports, nil
}

// report is what the inside tells while it starts.
type report struct {
	Done  string `json:"done,omitempty"`
	Ready bool   `json:"ready,omitempty"`
	Error string `json:"error,omitempty"`
}

func (n *Node) await(ctx context.Context, reports *os.File, log io.Writer) error {
	// A read isn't ended by a context, but by the end of the file.
	stop := context.AfterFunc(ctx, func() { _ = reports.Close() })
	defer stop()
	for decoder := json.NewDecoder(reports); ; {
		var r report
		switch err := decoder.Decode(&r); {
		case ctx.Err() != nil:
			return fmt.Errorf("start the node: %w\n%s", context.Cause(ctx), n.lastWords())
		case err != nil:
			return fmt.Errorf("start the node: it ended:\n%s", n.lastWords())
		case r.Error != "":
			return fmt.Errorf("start the node: %s", r.Error)
		case r.Ready:
			return nil
		default:
			_, _ = fmt.Fprintln(log, "  "+r.Done) // nobody to tell if this fails
		}
	}
}

func (n *Node) lastWords() string {
	text, err := os.ReadFile(n.home.log("node"))
	if err != nil {
		return err.Error()
	}
	return child.Tail(string(text), 20)
}

// Kubeconfig is the file with the administrator's kubeconfig, for use inside: from elsewhere the API server can't be
// reached.
func (n *Node) Kubeconfig() string { return n.home.join(kubeconfig) }

// Logs is the folder with what the node's parts write.
func (n *Node) Logs() string { return n.home.join(logs) }

// Done is closed when the node has ended, by Stop or of itself.
func (n *Node) Done() <-chan struct{} { return n.done }

// Stop kills what is inside and removes all that there was of the node. When it returns nothing is left.
func (n *Node) Stop() error {
	if n.first != nil {
		_ = n.first.Process.Kill() // it may have ended
		<-n.done
	}
	if n.janitor.finish() != nil { // somebody killed it, or it could not: then this tells why
		return n.home.remove()
	}
	return nil
}
