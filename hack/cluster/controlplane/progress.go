// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

const (
	onTerminal = time.Second      // one line, rewritten
	inLog      = 30 * time.Second // a line each: often enough to see it lives, rare enough to read
)

// progress tells a user what happens and how long it has taken so far.
type progress struct {
	out   io.Writer
	clock clock.WithTicker
	every time.Duration
	live  bool // out is a terminal
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, clock: clock.RealClock{}, every: inLog}
	if file, ok := out.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.every, p.live = onTerminal, true
		}
	}
	return p
}

func (p *progress) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format+"\n", args...) // nobody to tell if this fails
}

// during runs work and tells how long it has been at it.
func (p *progress) during(what string, work func() error) error {
	start := p.clock.Now()
	ticker := p.clock.NewTicker(p.every)
	defer ticker.Stop()
	done := make(chan error, 1)
	go func() { done <- work() }()

	p.show("%s ...", what)
	for {
		select {
		case <-ticker.C():
			p.show("%s ... %s", what, p.since(start))
		case err := <-done:
			if err != nil {
				p.end("%s: given up after %s", what, p.since(start))
				return err
			}
			p.end("%s: done in %s", what, p.since(start))
			return nil
		}
	}
}

func (p *progress) since(start time.Time) time.Duration {
	return p.clock.Since(start).Round(time.Second)
}

// show writes a state that the next one replaces, where that can be.
func (p *progress) show(format string, args ...any) {
	if p.live {
		_, _ = fmt.Fprintf(p.out, "\r\033[K"+format, args...)
		return
	}
	p.printf(format, args...)
}

func (p *progress) end(format string, args ...any) {
	p.show(format, args...)
	if p.live {
		p.printf("")
	}
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// lastClause is the innermost cause of err: what follows its last colon.
func lastClause(err error) string {
	text := lastLine(err.Error())
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[i+2:]
	}
	return text
}
