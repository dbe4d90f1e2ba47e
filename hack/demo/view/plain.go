// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"fmt"
	"io"
	"strings"

	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/script"
)

// Plain writes the log of the board line by line until ctx ends, and then an empty line.
func Plain(ctx context.Context, shown *board.Board, out io.Writer) error {
	for written, last := 0, false; !last; {
		last = ctx.Err() != nil // before Look, so that no entry is missed
		snapshot, changed := shown.Look()
		for i, entry := range snapshot.Log[written:] {
			if err := writePlain(out, entry, written+i == 0); err != nil {
				return err
			}
		}
		written = len(snapshot.Log)
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return writeText(out, "\n")
}

// writePlain writes an entry. It writes an empty line before each scene except the first.
func writePlain(out io.Writer, entry board.Entry, first bool) error {
	text := plainText(entry)
	if entry.Kind == board.Begun && !first {
		text = "\n" + text
	}
	return writeText(out, text)
}

func writeText(out io.Writer, text string) error {
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("writing what happens: %w", err)
	}
	return nil
}

// plainText returns the lines of an entry.
func plainText(entry board.Entry) string {
	after := fmt.Sprintf("%8.1f s  ", entry.After.Seconds())
	switch entry.Kind {
	case board.Begun:
		return entry.Text + "\n"
	case board.Told:
		return indent("  ", entry.Text)
	case board.Passed:
		return indent("      ok    ", entry.Text)
	case board.Failed:
		return indent("      FAIL  ", entry.Text)
	case board.Seen:
		return indent(after, "the operator reports "+entry.Text)
	default:
		return indent(after, entry.Text)
	}
}

// indent wraps the text, with the prefix before the first line and as many spaces before the others.
func indent(prefix, text string) string {
	lines := script.Wrap(text, script.LineWidth-len(prefix))
	return prefix + strings.Join(lines, "\n"+strings.Repeat(" ", len(prefix))) + "\n"
}
