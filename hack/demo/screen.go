// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
)

// errOutput ends the demo when nobody reads it any more.
var errOutput = errors.New("write output")

const (
	indent   = "   "
	lineMost = 110 // of a line that is rewritten: a longer one would wrap, and stay
)

// screen lays the output out. On a terminal it uses two colours and one line that tells what is waited for.
type screen struct {
	out  io.Writer
	live bool // a terminal
	stop context.CancelCauseFunc

	mu      sync.Mutex
	scenes  int
	pending bool // the line that tells what is waited for is there
}

func newScreen(out *os.File, stop context.CancelCauseFunc) *screen {
	live := isTerminal(out) && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""
	return &screen{out: out, live: live, stop: stop}
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// scene begins a numbered part.
func (s *screen) scene(title string, about ...string) {
	s.mu.Lock()
	s.scenes++
	n := s.scenes
	s.mu.Unlock()
	s.print("\n%s", s.bold(fmt.Sprintf("%d  %s", n, title)))
	for _, line := range about {
		s.print("%s", strings.TrimRight(indent+line, " "))
	}
}

// ok tells of something that is as it should be.
func (s *screen) ok(format string, args ...any) {
	s.print("%s%s  %s", indent, s.paint("32", "ok  "), fmt.Sprintf(format, args...))
}

// bad tells of something that isn't.
func (s *screen) bad(format string, args ...any) {
	s.print("%s%s  %s", indent, s.paint("31", "FAIL"), fmt.Sprintf(format, args...))
}

// note tells of anything else.
func (s *screen) note(format string, args ...any) {
	s.print("%s      %s", indent, fmt.Sprintf(format, args...))
}

// command shows a command that the user could type.
func (s *screen) command(line string) { s.print("%s%s", indent, s.bold("$ "+line)) }

// block shows lines as somebody else wrote them.
func (s *screen) block(text string) {
	for line := range strings.Lines(text) {
		s.print("%s%s", indent, strings.TrimRight(line, "\r\n"))
	}
}

// table shows rows in columns, between empty lines.
func (s *screen) table(head []string, rows [][]string) {
	s.print("\n%s", strings.TrimRight(layOut(head, rows), "\n"))
	s.print("")
}

// layOut aligns the cells of a table.
func layOut(head []string, rows [][]string) string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		_, _ = fmt.Fprintln(w, indent+strings.Join(row, "\t")) // a Buffer takes all
	}
	_ = w.Flush()
	return b.String()
}

func (s *screen) print(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	s.write(fmt.Sprintf(format, args...) + "\n")
}

// progress rewrites the line that tells what is waited for; where lines can't be rewritten it is silent.
func (s *screen) progress(format string, args ...any) {
	if !s.live {
		return
	}
	line := []rune(indent + "...   " + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
	if len(line) > lineMost {
		line = append(line[:lineMost-3], []rune("...")...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	s.write(string(line))
	s.pending = true
}

func (s *screen) progressEnd() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
}

func (s *screen) wipe() {
	if s.pending {
		s.write("\r\033[K")
		s.pending = false
	}
}

// write ends the demo when its reader has gone, as with `make demo | head`: nothing is to be left behind then.
func (s *screen) write(text string) {
	if _, err := io.WriteString(s.out, text); err != nil {
		s.stop(fmt.Errorf("%w: %w", errOutput, err))
	}
}

func (s *screen) bold(text string) string { return s.paint("1", text) }

func (s *screen) paint(code, text string) string {
	if !s.live {
		return text
	}
	return "\033[" + code + "m" + text + "\033[0m"
}
