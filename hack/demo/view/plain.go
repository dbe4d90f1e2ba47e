// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"miracle.dev/scaledjob-operator/hack/demo/board"
)

// lineWidth is that of plain lines.
const lineWidth = 80

// Plain writes the log of the board line by line until ctx ends.
func Plain(ctx context.Context, shown *board.Board, out io.Writer) error {
	for written, last := 0, false; !last; {
		last = ctx.Err() != nil // asked before the look, so that nothing is missed
		snapshot, changed := shown.Look()
		for _, entry := range snapshot.Log[written:] {
			if _, err := io.WriteString(out, plainText(entry)); err != nil {
				return fmt.Errorf("writing what happens: %w", err)
			}
		}
		written = len(snapshot.Log)
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// plainText returns an entry with its line ends.
func plainText(entry board.Entry) string {
	switch entry.Kind {
	case board.Begun:
		return "\n" + entry.Text + "\n"
	case board.Told:
		return indent("  ", entry.Text)
	case board.Passed:
		return indent("      ok    ", entry.Text)
	case board.Failed:
		return indent("      FAIL  ", entry.Text)
	case board.Seen:
		return indent(fmt.Sprintf("%8.1f s  ", entry.After.Seconds()), "the operator reports "+entry.Text)
	default:
		return indent(fmt.Sprintf("%8.1f s  ", entry.After.Seconds()), entry.Text)
	}
}

// indent puts the prefix before the text and as much space before its further
// lines, which are broken to the width of plain lines.
func indent(prefix, text string) string {
	wrapped := ansi.Wordwrap(text, lineWidth-len(prefix), "")
	return prefix + strings.ReplaceAll(wrapped, "\n", "\n"+strings.Repeat(" ", len(prefix))) + "\n"
}
