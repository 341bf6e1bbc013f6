// SPDX-License-Identifier: Apache-2.0

// Cluster provides the binaries of a Kubernetes control plane and runs one on
// this machine, alone or with a node that runs pods, for trying the operator out
// and for tests.
//
//	KUBEBUILDER_ASSETS=$(go run ./hack/cluster assets) go test ./controllers/...
//	go run ./hack/cluster up
//	go run ./hack/cluster up --node
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/cluster/controlplane"
	"github.com/proxy-operator/proxy-operator/hack/cluster/node"
)

const usage = `Usage: go run ./hack/cluster COMMAND

  assets  print the folder that holds etcd, kube-apiserver and kubectl; they
          are built first if need be (about 7 minutes on 2 cores, once)
  up      run a control plane on loopback until Ctrl-C or SIGTERM
            --kubeconfig FILE  write the admin's kubeconfig there
            --data DIR         keep the cluster's data there for the next time
            --port N           port of the API server (default: a free one)

With a node, which runs pods (Linux, as root; 4 minutes of building more, once):

  up --node [-- COMMAND ...]
          run a cluster of one node until Ctrl-C, or until COMMAND has run
          inside; nobody outside can reach it, and nobody inside gets out
            --audit-policy FILE  have the API server audit by this policy
  in COMMAND ...
          run a command inside, with kubectl and ctr set up
  down    stop the nodes that run here, and remove what killed ones left
`

const parentPoll = 500 * time.Millisecond // the system tells nobody that a parent has gone

var (
	// errUsage is answered with the usage text.
	errUsage = errors.New("wrong usage")
	// errParentGone is the cause with which a context ends whose `go run` has gone.
	errParentGone = errors.New("go run has gone")
)

func main() {
	if node.IsStage(os.Args[1:]) {
		if err := node.Stage(os.Args[1:]); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "cluster:", err)
			os.Exit(1)
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	ctx, cancel = startedByGoRun(ctx, os.Args[0], os.Getppid)
	defer cancel()
	var exit *exec.ExitError
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case err == nil:
	case errors.As(err, &exit) && exit.Exited():
		os.Exit(exit.ExitCode()) // of a command that ran inside
	case errors.Is(err, errUsage):
		_, _ = fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		_, _ = fmt.Fprintln(os.Stderr, "interrupted")
		os.Exit(130)
	default:
		_, _ = fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	switch command, rest := args[0], args[1:]; command {
	case "assets":
		if len(rest) != 0 {
			return errUsage
		}
		return assets(ctx, stdout, stderr)
	case "up":
		if len(rest) > 0 && rest[0] == "--node" {
			return upNode(ctx, rest[1:], stdout, stderr)
		}
		return up(ctx, rest, stdout, stderr)
	case "in":
		return inside(ctx, rest, stdout, stderr)
	case "down":
		if len(rest) != 0 {
			return errUsage
		}
		return node.Down(ctx, stdout)
	case "help", "-h", "--help":
		_, err := io.WriteString(stdout, usage)
		return err
	default:
		return errUsage
	}
}

func assets(ctx context.Context, stdout, stderr io.Writer) error {
	dir, err := controlplane.Assets(ctx, stderr)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, dir)
	return err
}

func up(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	options := controlplane.Options{Log: stderr}
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "")
	flags.StringVar(&options.DataDir, "data", "", "")
	flags.IntVar(&options.Port, "port", 0, "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, err := io.WriteString(stdout, usage)
		return err
	case err != nil, flags.NArg() != 0:
		return errUsage
	}
	if options.Assets, err = controlplane.Assets(ctx, stderr); err != nil {
		return err
	}
	options.UnsafeNoFsync = options.DataDir == ""
	_, _ = fmt.Fprintln(stderr, "starting etcd and kube-apiserver ...")
	c, err := controlplane.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	_, _ = fmt.Fprintf(stdout, `Control plane ready at %s. Stop it with Ctrl-C. To use it:

  export KUBECONFIG=%s
  %s get namespaces

`, c.Endpoint, c.Kubeconfig, filepath.Join(options.Assets, "kubectl"))
	select {
	case <-c.Done():
		return c.Err()
	case <-ctx.Done():
		_, _ = fmt.Fprintln(stderr, "stopping ...")
		return nil
	}
}

// startedByGoRun ends the context when the `go run` that started this program
// has gone: it dies of a SIGTERM without passing it on (golang/go#40467). A
// program that was built to stay goes on without its parent.
func startedByGoRun(ctx context.Context, binary string, parent func() int) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	cancel := func() { end(nil) }
	if !strings.Contains(binary, string(filepath.Separator)+"go-build") {
		return ctx, cancel
	}
	starter := parent()
	go func() {
		defer end(errParentGone)
		ticker := time.NewTicker(parentPoll)
		defer ticker.Stop()
		for parent() == starter {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return ctx, cancel
}
