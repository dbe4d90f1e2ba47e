// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package svg draws plots into SVG files. The program test/bench/plot does it, which is a module of its own, because no
// other part needs a library for plots. So it must be used in the root of the repository.
package svg

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
)

// program draws.
const program = "test/bench/plot"

// Plot is a plot, or several next to each other.
type Plot struct {
	// File is the name of the file. The panels of a plot have none.
	File  string `json:"file"`
	Title string `json:"title"`
	X     Axis   `json:"x"`
	Y     Axis   `json:"y"`
	Lines []Line `json:"lines"`
	// Sum is a comment in the file.
	Sum string `json:"sum"`
	// Panels are drawn instead of the lines.
	Panels []Plot `json:"panels,omitempty"`
}

// Axis is an axis of a plot.
type Axis struct {
	Label string `json:"label"`
	// Log makes each step of the axis ten times as much. Zero has it begin at 0.
	Log  bool `json:"log,omitempty"`
	Zero bool `json:"zero,omitempty"`
}

// Line is a line in a plot.
type Line struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
	// Reference is a line of what others are compared with.
	Reference bool `json:"reference,omitempty"`
}

// Draw draws each plot into its file in a folder.
func Draw(ctx context.Context, folder string, plots []Plot) error {
	if len(plots) == 0 {
		return nil
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	input, err := json.Marshal(plots)
	if err != nil {
		return err
	}
	drawing := exec.CommandContext(ctx, "go", "run", ".", folder)
	drawing.Dir, drawing.Stdin = program, bytes.NewReader(input)
	if output, err := drawing.CombinedOutput(); err != nil {
		return fmt.Errorf("drawing plots: %w\n%s", err, output)
	}
	return nil
}
