// SPDX-License-Identifier: Apache-2.0

// Demo shows the operator at work on this machine: it starts a control plane, the operator and an origin, applies
// config/samples, sends requests through the proxies, and then (ONCE=1) changes, kills and deletes things and shows what
// becomes of them. Without ONCE=1 it stays up for you to try things.
//
//	make demo
//	make demo ONCE=1
//
// All is on loopback, in one temporary folder, and gone at the end. Reading order: main.go, demo.go, then one file for
// each scene: setup.go, samples.go, traffic.go, rotation.go, move.go, hang.go, crash.go, deletion.go, stayup.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options say how the demo runs.
type options struct {
	once    bool          // end by itself
	binary  string        // the operator's; empty: it is built
	timeout time.Duration // for all scenes together
}

// exitInterrupted is what a shell reports of a program that Ctrl-C ended.
const exitInterrupted = 130

var errInterrupted = errors.New("interrupted")

func main() {
	o, err := parse(os.Args[1:], os.Getenv, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2) // the flag package has said what is wrong
	}
	os.Exit(run(o, os.Stdout))
}

func parse(args []string, getenv func(string) string, usage io.Writer) (options, error) {
	o := options{once: isSet(getenv("ONCE"))}
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.SetOutput(usage)
	f.BoolVar(&o.once, "once", o.once, "end by itself, after the scenes that change and break things (environment: ONCE=1)")
	f.StringVar(&o.binary, "binary", "", "`path` of a proxy-operator that is built already")
	f.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long the scenes may take together, once the control plane's binaries are there")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		err := fmt.Errorf("unexpected argument %q", f.Arg(0))
		_, _ = fmt.Fprintln(usage, err)
		f.Usage()
		return o, err
	}
	return o, nil
}

// isSet reads a variable as make users write it.
func isSet(value string) bool {
	switch value {
	case "", "0", "false", "no":
		return false
	default:
		return true
	}
}

func run(o options, out *os.File) int {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	d := newDemo(o, out, stop)
	defer d.onSignals()()
	err := d.play(ctx)
	interrupted := errors.Is(context.Cause(ctx), errInterrupted) || errors.Is(context.Cause(ctx), errOutput)
	if err != nil && !interrupted {
		d.fail(err)
	}
	d.end(err != nil && !interrupted)
	switch {
	case interrupted && (o.once || !d.staying.Load()):
		d.screen.print("interrupted; %s", d.leftovers())
		return exitInterrupted
	case o.once:
		d.screen.print("%s", d.tally.line())
	default:
		d.screen.print("the end: %s", d.leftovers())
	}
	if d.tally.good() {
		return 0
	}
	return 1
}

// onSignals makes the first signal end the demo in order, and the second one at once.
func (d *demo) onSignals() (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// Who asks for SIGPIPE isn't ended by it when the reader of our output has gone: what was started is to be ended first.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		d.screen.print("")
		d.screen.note("ending everything; Ctrl-C again leaves at once")
		d.stop(errInterrupted)
		if _, ok := <-signals; ok {
			d.abandon()
			os.Exit(exitInterrupted)
		}
	}()
	return func() {
		signal.Stop(signals)
		signal.Stop(pipe)
		close(signals)
	}
}
