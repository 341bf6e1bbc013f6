// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATableIsAligned(t *testing.T) {
	got := layOut([]string{"PROXY", "AT", "HTTP"}, [][]string{{"a", "127.0.0.1:1", "200"}, {"longer", "b", "407"}})
	require.Equal(t, strings.Join([]string{
		"   PROXY    AT            HTTP",
		"   a        127.0.0.1:1   200",
		"   longer   b             407",
		"",
	}, "\n"), got)
}

func TestOutputToAFileIsPlain(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out}
	s.scene("First", "about it", "")
	s.progress("waiting")
	s.ok("%d of %d", 1, 1)
	s.bad("no")
	s.note("see")
	s.command("kubectl get proxies")
	s.block("NAME\nx\n")
	s.scene("Second")
	require.Equal(t, strings.Join([]string{
		"", "1  First", "   about it", "",
		"   ok    1 of 1",
		"   FAIL  no",
		"         see",
		"   $ kubectl get proxies",
		"   NAME", "   x",
		"", "2  Second", "",
	}, "\n"), out.String())
}

func TestOnATerminalTheWaitingLineIsRewritten(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, live: true}
	s.progress("waiting for %s", strings.Repeat("x", 200))
	waiting := out.String()
	require.Len(t, waiting, lineMost, "a line that wraps can't be rewritten")
	s.print("there")
	require.Equal(t, waiting+"\r\033[Kthere\n", out.String())
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestTheDemoEndsWhenNobodyReadsIt(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	s := &screen{out: brokenPipe{}, stop: stop}
	s.print("hello")
	require.ErrorIs(t, context.Cause(ctx), errOutput)
}
