// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// report prints the figures and remembers which targets are missed.
type report struct {
	out    io.Writer
	missed []string
	err    error // of the first line that couldn't be printed
}

func newReport(out io.Writer) *report { return &report{out: out} }

// show prints a figure that nothing is promised about.
func (r *report) show(name string, value float64) { r.line("bench %s %s", name, number(value)) }

// atMost prints a figure that is promised not to exceed the target.
func (r *report) atMost(target float64, name string, value float64) {
	r.line("bench %s %s (target <=%s)", name, number(value), number(target))
	if value > target {
		r.missed = append(r.missed, name)
	}
}

func (r *report) line(format string, args ...any) {
	if _, err := fmt.Fprintf(r.out, format+"\n", args...); err != nil && r.err == nil {
		r.err = fmt.Errorf("print figure: %w", err)
	}
}

// verdict is errMissed with the names of the figures, or nil.
func (r *report) verdict() error {
	if r.err != nil {
		return r.err
	}
	if len(r.missed) > 0 {
		return fmt.Errorf("%w: %s", errMissed, strings.Join(r.missed, ", "))
	}
	return nil
}

// number has as many digits as are worth reading.
func number(v float64) string {
	scale := 100.0
	if math.Abs(v) >= 100 {
		scale = 1
	}
	return strconv.FormatFloat(math.Round(v*scale)/scale, 'f', -1, 64)
}
