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
// what is measured: writes.go, rest.go, traffic.go, and atscale.go, for which this program is the manager too
// (scalemanager.go). probes.go needs none of that: it measures the health engine (probesengine.go) beside a plain client
// (probesbare.go), and this program is what they talk to as well (probesfarend.go).
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
	scale   int           // Proxies on a cloud in memory; 0: none
	burst   int           // created at once there under a quota
	probes  int           // proxies that are probed; 0: none
	timeout time.Duration // for all, once the control plane's binaries are there
}

// exitInterrupted is what a shell reports of a program that Ctrl-C ended.
const exitInterrupted = 130

var errMissed = errors.New("a target is missed")

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case asManager:
			os.Exit(serveAsManager(os.Args[2:]))
		case asFarEnd:
			os.Exit(serveAsFarEnd())
		}
	}
	var o options
	flag.StringVar(&o.binary, "binary", "", "`path` of a proxy-operator that is built already")
	flag.IntVar(&o.singles, "singles", 20, "how many Proxies come and go one after another")
	flag.IntVar(&o.fleet, "fleet", 200, "how many Proxies are made at once and then rest")
	flag.DurationVar(&o.rest, "rest", time.Minute, "how long they rest")
	flag.IntVar(&o.scale, "scale", 10000, "how many Proxies are made on a cloud in memory and then rest; 0: none, and no -burst")
	flag.IntVar(&o.burst, "burst", 1000, "how many are made there at once under a quota")
	flag.IntVar(&o.probes, "probes", 1000, "how many proxies are probed; 0: none")
	flag.DurationVar(&o.timeout, "timeout", 40*time.Minute, "how long all may take, once the control plane's binaries are there")
	flag.Parse()
	if flag.NArg() > 0 || !o.valid() {
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

func (o *options) valid() bool {
	return o.singles >= 1 && o.fleet >= 1 && o.scale >= 0 && o.burst >= 1 && o.probes >= 0
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
		err = errors.Join(err, w.End(context.WithoutCancel(interrupted)))
	}()
	ctx, cancel := context.WithTimeoutCause(interrupted, o.timeout, fmt.Errorf("the limit of %s has passed (-timeout sets another)", o.timeout))
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := newReport(os.Stdout)
	if o.probes > 0 {
		if err := w.probes(ctx, r); err != nil {
			return err
		}
	}
	if err := w.start(ctx, fail); err != nil {
		return err
	}
	measures := []func(context.Context, *report) error{w.oneByOne, w.together}
	if o.scale > 0 {
		measures = append(measures, w.atScale)
	}
	for _, measure := range measures {
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
