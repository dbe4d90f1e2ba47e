// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
)

// lines writes lines, some of them in several pieces.
type lines struct {
	out     io.Writer
	started string // the pieces of the unfinished line
}

// line writes a whole line, after it has ended an unfinished one.
func (l *lines) line(format string, args ...any) {
	if l.started != "" {
		l.write("\n")
		l.started = ""
	}
	l.write(fmt.Sprintf(format, args...) + "\n")
}

// piece writes a piece of a line and does not end the line.
func (l *lines) piece(format string, args ...any) {
	piece := fmt.Sprintf(format, args...)
	l.started += piece
	l.write(piece)
}

// end ends the current line.
func (l *lines) end() {
	l.write("\n")
	l.started = ""
}

// Write implements io.Writer for the progress of others. It writes their lines indented, and then repeats the
// unfinished line.
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

// write ignores errors: if the output is closed, the demo cannot report that.
func (l *lines) write(text string) { _, _ = io.WriteString(l.out, text) }
