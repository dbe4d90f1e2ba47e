// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package progress shows what lasts: on a terminal in one line that changes every second, elsewhere in a line from time
// to time.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	terminalInterval = time.Second
	plainInterval    = 15 * time.Second
	clearLine        = "\r\x1b[K"
)

// Line shows an activity, what it does now, and for how long it has lasted. It is safe for concurrent use.
type Line struct {
	out      io.Writer
	columns  int // of the terminal, or 0 if out is none
	activity string
	begin    time.Time
	stop     func()

	mu     sync.Mutex
	status string
}

// Start shows the activity on out until Stop is called. A nil out shows nothing.
func Start(out io.Writer, activity string) *Line {
	return start(out, columns(out), activity)
}

// columns returns the width of the terminal, or 0 if out is none.
func columns(out io.Writer) int {
	file, isFile := out.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

func start(out io.Writer, columns int, activity string) *Line {
	line := &Line{out: out, columns: columns, activity: activity, begin: time.Now(), stop: func() {}}
	if out == nil {
		return line
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	line.stop = func() { close(done); <-stopped }
	go func() {
		defer close(stopped)
		line.show(done)
	}()
	return line
}

// show writes until done is closed.
func (l *Line) show(done <-chan struct{}) {
	interval := plainInterval
	if l.columns > 0 {
		interval = terminalInterval
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			l.write()
		}
	}
}

// Status says what the activity does now.
func (l *Line) Status(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status = fmt.Sprintf(format, args...)
}

// Say writes a sentence that stays on the terminal.
func (l *Line) Say(format string, args ...any) {
	if l.out == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
	_, _ = fmt.Fprintf(l.out, format+"\n", args...)
}

// Stop ends the line and removes it from the terminal.
func (l *Line) Stop() {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
}

func (l *Line) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.activity
	if l.status != "" {
		text += ": " + l.status
	}
	text += fmt.Sprintf(", %s", time.Since(l.begin).Round(time.Second))
	text += " …"
	if l.columns == 0 {
		_, _ = fmt.Fprintln(l.out, text)
		return
	}
	// A text that fills the last column wraps on some terminals.
	if runes := []rune(text); len(runes) >= l.columns {
		text = string(runes[:l.columns-1])
	}
	_, _ = fmt.Fprint(l.out, clearLine+text)
}

func (l *Line) erase() {
	if l.columns > 0 {
		_, _ = fmt.Fprint(l.out, clearLine)
	}
}
