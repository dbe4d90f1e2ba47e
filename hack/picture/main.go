// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command picture converts the content of a terminal to an SVG. It reads text with ANSI colors, in the format of `tmux
// capture-pane -e -p`, from standard input, and writes the SVG to standard output.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("reading the screen: %w", err)
	}
	if _, err := io.WriteString(out, draw(parse(string(text)))); err != nil {
		return fmt.Errorf("writing the picture: %w", err)
	}
	return nil
}
