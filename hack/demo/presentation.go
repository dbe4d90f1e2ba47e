// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/view"
)

// presentation is how the scenes are shown.
type presentation struct {
	// show shows the board until ctx ends.
	show func(context.Context, *board.Board) error
	// interlude is how long the end of a scene stays in sight.
	interlude time.Duration
}

// choosePresentation updates a terminal in place, and writes plain lines to
// anything else, and to whom asks for them.
func choosePresentation(out io.Writer) presentation {
	terminal, isFile := out.(*os.File)
	if isFile && isInteractive(terminal) && isInteractive(os.Stdin) && wantsColor(os.Getenv) {
		return presentation{interlude: 2 * time.Second, show: func(ctx context.Context, shown *board.Board) error {
			return view.Live(ctx, shown, os.Stdin, terminal)
		}}
	}
	return presentation{show: func(ctx context.Context, shown *board.Board) error {
		return view.Plain(ctx, shown, out)
	}}
}

func isInteractive(file *os.File) bool { return term.IsTerminal(int(file.Fd())) }

// wantsColor reports whether neither NO_COLOR is set nor the terminal dumb.
func wantsColor(getenv func(string) string) bool {
	kind := getenv("TERM")
	return getenv("NO_COLOR") == "" && kind != "" && kind != "dumb"
}
