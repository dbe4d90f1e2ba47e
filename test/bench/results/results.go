// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package results is what a run of the benchmarks has measured, as a JSON document and as tables. It names neither the
// machine nor anything on it.
package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Loop is what the minimal loop is called.
const Loop = "minimal loop"

// Run is one run of the benchmarks.
type Run struct {
	Date time.Time `json:"date"`
	// Commit is that of the tree. Modified says that the tree differed from it.
	Commit   string `json:"commit"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	// Load is how many processes wanted to run in the minute before the run, on average.
	Load         float64       `json:"load"`
	Kubernetes   string        `json:"kubernetes"`
	Redis        string        `json:"redis"`
	Measurements []Measurement `json:"measurements"`
}

// Measurement has the figures of one of those to choose from.
type Measurement struct {
	Name    string   `json:"name"`
	Figures []Figure `json:"figures"`
}

// Figure is what was measured of the operator. Its work is unique in the measurement.
type Figure struct {
	Work string  `json:"work"`
	Unit string  `json:"unit"`
	Ours float64 `json:"ours"`
	// Reference is the figure of the minimal loop, and Ratio that of the operator divided by it. Both are 0 if the minimal
	// loop does not do this work.
	Reference float64 `json:"reference,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"`
	// The target: a ratio of at most or at least so much, or at most so much of Ours.
	AtMost  float64 `json:"atMost,omitempty"`
	AtLeast float64 `json:"atLeast,omitempty"`
	Most    float64 `json:"most,omitempty"`
	// Rounds are the values that Ours is the median of, if each round has one.
	Rounds []float64 `json:"rounds,omitempty"`
	// Samples are those that the figure is a quantile of, if a plot shows them.
	Samples *Samples `json:"samples,omitempty"`
}

// Samples are sorted.
type Samples struct {
	Reference []float64 `json:"reference"`
	Ours      []float64 `json:"ours"`
}

// Alone is a figure that is compared with nothing.
func Alone(work, unit string, ours float64) Figure {
	return Figure{Work: work, Unit: unit, Ours: round(ours)}
}

// Compare is a figure that is compared with that of the minimal loop, which is not 0.
func Compare(work, unit string, reference, ours float64) Figure {
	return Figure{Work: work, Unit: unit, Ours: round(ours), Reference: round(reference), Ratio: round(ours / reference)}
}

// Median is a figure that has a value for each round.
func Median(work, unit string, rounds []float64) Figure {
	figure := Alone(work, unit, spreadOf(rounds).Median)
	figure.Rounds = rounded(rounds)
	return figure
}

// Sorted are the samples of both.
func Sorted(reference, ours []float64) *Samples {
	return &Samples{Reference: rounded(slices.Sorted(slices.Values(reference))), Ours: rounded(slices.Sorted(slices.Values(ours)))}
}

func rounded(values []float64) []float64 {
	all := make([]float64, len(values))
	for i, value := range values {
		all[i] = round(value)
	}
	return all
}

// round leaves four digits, which is as much as a measurement is worth.
func round(value float64) float64 {
	const digits = 4
	result, err := strconv.ParseFloat(strconv.FormatFloat(value, 'g', digits, 64), 64)
	if err != nil {
		return value
	}
	return result
}

// Find returns the figure of this work, and nil if there is none.
func (m *Measurement) Find(work string) *Figure {
	for i := range m.Figures {
		if m.Figures[i].Work == work {
			return &m.Figures[i]
		}
	}
	return nil
}

// Find returns the measurement of this name, and nil if it was not taken.
func (r *Run) Find(name string) *Measurement {
	for i := range r.Measurements {
		if r.Measurements[i].Name == name {
			return &r.Measurements[i]
		}
	}
	return nil
}

// numbersInLines is a list of numbers as the encoder indents it.
var numbersInLines = regexp.MustCompile(`\[\s+[-+\d.e]+(?:,\s+[-+\d.e]+)*\s+\]`)

// Write replaces the file by the run. Each list of numbers takes one line.
func (r *Run) Write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	text = numbersInLines.ReplaceAllFunc(text, func(list []byte) []byte {
		return []byte(strings.Join(strings.Fields(string(list)), ""))
	})
	unfinished := path + ".unfinished"
	if err := os.WriteFile(unfinished, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}

// Committed reads the runs that are published, which are JSON files in this folder.
func Committed(folder string) (runs []*Run, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no committed results: %s", folder)
	}
	for _, file := range files {
		run, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", filepath.Base(file), err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// read fails for a file with a field that nobody knows.
func read(path string) (*Run, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder, run := json.NewDecoder(bytes.NewReader(text)), &Run{}
	decoder.DisallowUnknownFields()
	return run, decoder.Decode(run)
}
