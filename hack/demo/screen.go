// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// screen writes lines, some of them piece by piece as things happen.
type screen struct {
	out     io.Writer
	started string // the pieces of a line that is not finished
}

// line writes a whole line, after finishing one that was started.
func (s *screen) line(format string, args ...any) {
	if s.started != "" {
		s.write("\n")
		s.started = ""
	}
	s.write(fmt.Sprintf(format, args...) + "\n")
}

// piece writes a piece of a line and leaves the line open.
func (s *screen) piece(format string, args ...any) {
	piece := fmt.Sprintf(format, args...)
	s.started += piece
	s.write(piece)
}

// end finishes the line that was started.
func (s *screen) end() {
	s.write("\n")
	s.started = ""
}

// Write implements io.Writer for progress lines of others. They are indented
// below the line that was started, which then begins anew.
func (s *screen) Write(progress []byte) (int, error) {
	if s.started != "" {
		s.write("\n")
	}
	for text := range strings.Lines(string(progress)) {
		s.write("    " + text)
	}
	s.write(s.started)
	return len(progress), nil
}

// write ignores errors: a demo nobody can read has nobody to tell.
func (s *screen) write(text string) { _, _ = io.WriteString(s.out, text) }

// short returns a duration in milliseconds or, from one second on, in seconds.
func short(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// count returns a number and its noun: "1 Job", "2 Jobs".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
