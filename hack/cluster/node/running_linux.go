// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	downTimeout = 30 * time.Second
	downPoll    = 100 * time.Millisecond
)

var (
	errRoot   = errors.New("nodes are root's: run it as root (sudo -E go run ./hack/cluster ...)")
	errInside = errors.New("the program that runs it can't be seen from here: run this on the machine, not inside the node")
)

// Running finds the node that another program has started. Where there are several, it finds none of them: nobody has said
// which.
func Running() (*Node, error) {
	if os.Geteuid() != 0 {
		return nil, errRoot
	}
	h, err := theOne(homes())
	if err != nil {
		return nil, err
	}
	n := &Node{home: h}
	if n.binary, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find the own binary: %w", err)
	}
	return n, h.load(settings, &n.config)
}

func theOne(all []home) (home, error) {
	var ready []home
	var names []string
	starting := false
	for _, h := range all {
		pid, alive := h.owner()
		if !alive {
			continue
		}
		if pid <= 0 {
			return home{}, fmt.Errorf("node %s: %w", h.dir, errInside)
		}
		if _, err := os.Stat(h.join(kubeconfig)); err != nil {
			starting = true
			continue
		}
		ready, names = append(ready, h), append(names, fmt.Sprintf("%s of process %d", h.dir, pid))
	}
	switch {
	case len(ready) == 1:
		return ready[0], nil
	case len(ready) > 1:
		return home{}, fmt.Errorf("%d nodes run here, and this is for one: %s; end one of these processes", len(ready), strings.Join(names, ", "))
	case starting:
		return home{}, errors.New("the node is still starting")
	default:
		return home{}, errors.New("no node runs here: start one with: go run ./hack/cluster up --node")
	}
}

// Down has the programs that run nodes, or are about to, stop them, removes what killed ones left, and tells log of each.
// That there is none is no error.
func Down(ctx context.Context, log io.Writer) error {
	if os.Geteuid() != 0 {
		return errRoot
	}
	ctx, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	all := homes()
	if len(all) == 0 {
		_, err := fmt.Fprintf(log, "no node runs here, and nothing is left of one (in %s)\n", os.TempDir())
		return err
	}
	var errs []error
	for _, h := range all {
		errs = append(errs, h.down(ctx, log))
	}
	return errors.Join(errs...)
}

// down returns when nothing is left of the node.
func (h home) down(ctx context.Context, log io.Writer) error {
	poll := time.NewTicker(downPoll)
	defer poll.Stop()
	for asked := false; ; {
		switch pid, alive := h.owner(); {
		case alive && !asked:
			if err := h.terminate(pid); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(log, "stopping node %s of process %d\n", h.dir, pid) // nobody to tell if this fails
			asked = true
		case !alive && h.deserted():
			if _, err := os.Stat(h.dir); err == nil {
				_, _ = fmt.Fprintf(log, "removing what is left of node %s\n", h.dir)
			}
			if gone, err := h.bury(); gone || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %s is still there: %w", h.dir, ctx.Err())
		case <-poll.C:
		}
	}
}

// terminate asks the owner to stop. An owner in another PID namespace is process 0 to us, and a signal to that would be for
// our own group.
func (h home) terminate(pid int) error {
	if pid <= 0 {
		return fmt.Errorf("stop node %s: %w", h.dir, errInside)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop node %s of process %d: %w", h.dir, pid, err)
	}
	return nil
}
