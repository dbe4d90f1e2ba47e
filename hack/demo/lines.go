// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
)

// lines writes lines, some of them piece by piece as things happen.
type lines struct {
	out     io.Writer
	started string // the pieces of a line that is not finished
}

// line writes a whole line, after finishing one that was started.
func (l *lines) line(format string, args ...any) {
	if l.started != "" {
		l.write("\n")
		l.started = ""
	}
	l.write(fmt.Sprintf(format, args...) + "\n")
}

// piece writes a piece of a line and leaves the line open.
func (l *lines) piece(format string, args ...any) {
	piece := fmt.Sprintf(format, args...)
	l.started += piece
	l.write(piece)
}

// end finishes the line that was started.
func (l *lines) end() {
	l.write("\n")
	l.started = ""
}

// Write implements io.Writer for progress lines of others. They are indented
// below the line that was started, which then begins anew.
func (l *lines) Write(progress []byte) (int, error) {
	if l.started != "" {
		l.write("\n")
	}
	for text := range strings.Lines(string(progress)) {
		l.write("    " + text)
	}
	l.write(l.started)
	return len(progress), nil
}

// write ignores errors: a demo nobody can read has nobody to tell.
func (l *lines) write(text string) { _, _ = io.WriteString(l.out, text) }
