// SPDX-License-Identifier: Apache-2.0

// Bench measures what the project promises, and some figures that are good to know, on a control plane and a manager of
// its own:
//
//	make bench
//
// Each figure is a line `bench NAME VALUE (target <=T)` on standard output, without the part in parentheses where nothing
// is promised; progress goes to standard error. The exit code is 1 if a target is missed. All that it starts is on
// loopback and in one temporary folder, and gone at the end.
//
// Reading order: main.go, world.go (what runs), counters.go (what is read from it), fleet.go (Proxies come and go), then
// what is measured: writes.go, rest.go, traffic.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options say what is measured.
type options struct {
	binary  string        // the operator's; empty: it is built
	singles int           // Proxies that come and go one after another
	fleet   int           // Proxies that rest together
	rest    time.Duration // for how long
	timeout time.Duration // for all, once the control plane's binaries are there
}

// exitInterrupted is what a shell reports of a program that Ctrl-C ended.
const exitInterrupted = 130

var errMissed = errors.New("a target is missed")

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "`path` of a proxy-operator that is built already")
	flag.IntVar(&o.singles, "singles", 20, "how many Proxies come and go one after another")
	flag.IntVar(&o.fleet, "fleet", 200, "how many Proxies are made at once and then rest")
	flag.DurationVar(&o.rest, "rest", time.Minute, "how long they rest")
	flag.DurationVar(&o.timeout, "timeout", 15*time.Minute, "how long all may take, once the control plane's binaries are there")
	flag.Parse()
	if flag.NArg() > 0 || o.singles < 1 || o.fleet < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// Who asks for SIGPIPE isn't ended by it when the reader of our output has gone: what was started is to be ended first.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	err := run(ctx, o)
	switch {
	case err == nil:
		return
	case ctx.Err() != nil:
		progress("interrupted; ended all that was started")
		os.Exit(exitInterrupted)
	default:
		progress("bench: %v", err)
		os.Exit(1)
	}
}

// run measures everything, and leaves nothing behind however it ends.
func run(interrupted context.Context, o options) (err error) {
	w, err := newWorld(interrupted, o)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && !errors.Is(err, errMissed) && interrupted.Err() == nil {
			w.tellOfManager()
		}
		err = errors.Join(err, w.end(context.WithoutCancel(interrupted)))
	}()
	ctx, cancel := context.WithTimeoutCause(interrupted, o.timeout, fmt.Errorf("the limit of %s has passed (-timeout sets another)", o.timeout))
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if err := w.start(ctx, fail); err != nil {
		return err
	}
	r := newReport(os.Stdout)
	for _, measure := range []func(context.Context, *report) error{w.oneByOne, w.together} {
		if err := measure(ctx, r); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = fmt.Errorf("%w: %w", err, cause)
			}
			return err
		}
	}
	return r.verdict()
}

func progress(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, format+"\n", args...)
}
