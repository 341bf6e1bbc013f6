// SPDX-License-Identifier: Apache-2.0

// Soak looks for machines that the operator loses or doubles: real Proxies on a control plane of its own, made by the
// real manager with the provider local, while users change them without pause and the manager is killed again and again.
// Then all settles, and everything must be exactly as wanted:
//
//	make soak
//	go run ./hack/soak -proxies=20 -for=30s -kill-every=3s -seed=7
//
// What there is is counted from outside: in the system's process table, in the folders of the machines, by requests
// through the proxies and by what the API server says. The last line is
//
//	soak: N proxies, E edits, K kills; X machines, Y missing, Z left over
//
// and the exit code is 1 unless X = N, Y = Z = 0. All that it starts is on loopback and in one folder, and gone at the end.
//
// Reading order: main.go, soak.go (the phases), churn.go (the users), wanted.go (what they want), look.go (what there is),
// judge.go (the difference), traffic.go, report.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// options say what is done.
type options struct {
	binary    string        // the operator's; empty: it is built
	dir       string        // for the scratch folder; empty: the system's temporary folder
	proxies   int           // that there are at most
	churn     time.Duration // for which they are changed
	killEvery time.Duration // between two kills of the manager, on average
	settle    time.Duration // limit of what comes after
	seed      uint64
}

const (
	exitWrong       = 1
	exitUsage       = 2
	exitInterrupted = 130 // what a shell reports of a program that Ctrl-C ended
)

// errInexact tells that something is missing or left over; the last line says what.
var errInexact = errors.New("not as wanted")

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(exitUsage) // the flag package has said what is wrong
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// Who asks for SIGPIPE isn't ended by it when the reader of our output has gone: what was started is to be ended first.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	err = run(ctx, o, os.Stdout, os.Stderr)
	switch {
	case err == nil:
		return
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(os.Stderr, "soak: interrupted; ended all that was started")
		os.Exit(exitInterrupted)
	default:
		_, _ = fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(exitWrong)
	}
}

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	f.SetOutput(usage)
	f.StringVar(&o.binary, "binary", "", "`path` of a proxy-operator that is built already")
	f.StringVar(&o.dir, "dir", "", "`folder` in which the one with all data is made; by default the system's temporary one")
	f.IntVar(&o.proxies, "proxies", 500, "how many Proxies there are; each takes about 8 MiB of memory")
	f.DurationVar(&o.churn, "for", 5*time.Minute, "how long they are changed while the manager is killed")
	f.DurationVar(&o.killEvery, "kill-every", 7*time.Second, "how often the manager is killed with SIGKILL, on average")
	f.DurationVar(&o.settle, "settle", 10*time.Minute, "limit for what was changed to settle, and for the deletion of all")
	f.Uint64Var(&o.seed, "seed", 0, "repeats the choices of an earlier run; 0: new ones")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.proxies < 1 || o.churn <= 0 || o.killEvery <= 0 || o.settle <= 0 {
		err := errors.New("there are no arguments, and what the flags say must be positive")
		_, _ = fmt.Fprintln(usage, err)
		f.Usage()
		return o, err
	}
	if o.seed == 0 {
		o.seed = rand.Uint64() //nolint:gosec // choices, no secrets
	}
	return o, nil
}

// run does all of it, prints the last line to out, and leaves nothing behind however it ends.
func run(interrupted context.Context, o options, out, progress io.Writer) (err error) {
	w, err := operator.Prepare(interrupted, "soak", o.binary, o.dir, progress)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(interrupted)
	defer fail(nil)
	s := newSoak(o, w, progress, fail)
	defer func() {
		if err != nil && interrupted.Err() == nil {
			s.keepLog()
		}
		err = errors.Join(err, w.End(context.WithoutCancel(interrupted)))
	}()
	s.tell("seed %d (-seed=%d repeats the choices)", o.seed, o.seed)
	if err := s.play(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return err
	}
	if _, err := fmt.Fprintln(out, s.line()); err != nil {
		return fmt.Errorf("print the last line: %w", err)
	}
	if !s.exact() {
		return errInexact
	}
	return nil
}
