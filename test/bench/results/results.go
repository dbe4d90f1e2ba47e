// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package results is what a run of the benchmarks has measured, as a JSON document. It names neither the machine nor
// anything on it.
package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// Version is that of the schema. A document of another one is not read.
	Version = 1
	// MostSamples of a distribution are kept.
	MostSamples = 500
	// CurvePoints are on each curve.
	CurvePoints = 50
)

// Run is one run of the benchmarks.
type Run struct {
	Version int       `json:"version"`
	Date    time.Time `json:"date"`
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
	Samples      int           `json:"samples"`
	Rounds       int           `json:"rounds"`
	Measurements []Measurement `json:"measurements"`
}

// Measurement are the figures of one of those to choose from.
type Measurement struct {
	Name    string   `json:"name"`
	Seconds float64  `json:"seconds"`
	Figures []Figure `json:"figures"`
}

// What a reference may be, besides other things that a figure names itself.
const (
	// Loop is the minimal loop.
	Loop = "minimal loop"
	// Limit is what should not be exceeded.
	Limit = "limit"
	// Nothing means that there is no reference.
	Nothing = ""
)

// Figure is what was measured of the operator, and what it is compared with. Its work tells it from all others of the
// measurement.
type Figure struct {
	Work string  `json:"work"`
	Unit string  `json:"unit"`
	Ours float64 `json:"ours"`
	// Beside says what the reference is.
	Beside    string  `json:"beside,omitempty"`
	Reference float64 `json:"reference,omitempty"`
	// Ratio is missing if there is no reference. It need not be that of the two others, if it is a median.
	Ratio *float64 `json:"ratio,omitempty"`
	// What is aimed at: a ratio of at most or at least so much, or at most so much of ours.
	AtMost  float64 `json:"atMost,omitempty"`
	AtLeast float64 `json:"atLeast,omitempty"`
	Most    float64 `json:"most,omitempty"`
	// Rounds are the values that Ours is the median of, if each round has one.
	Rounds []float64 `json:"rounds,omitempty"`
	// Samples are those that this figure, and those that follow it with the same reference, are quantiles of.
	Samples *Samples `json:"samples,omitempty"`
	Curves  *Curves  `json:"curves,omitempty"`
}

// Samples are two distributions.
type Samples struct {
	Reference Distribution `json:"reference"`
	Ours      Distribution `json:"ours"`
}

// Distribution are values in their order, of which there were Count. If there were more than MostSamples, so many at
// even distances are left, with the first and the last.
type Distribution struct {
	Count  int       `json:"count"`
	Values []float64 `json:"values"`
}

// Distribute makes a distribution of values, and leaves them as they are.
func Distribute(values []float64) Distribution {
	sorted := slices.Sorted(slices.Values(values))
	return Distribution{Count: len(values), Values: rounded(thinned(sorted, MostSamples))}
}

// Curves tell, for each round, at how many milliseconds each of CurvePoints equal parts of Count Jobs was there.
type Curves struct {
	Count     int         `json:"count"`
	Reference [][]float64 `json:"reference"`
	Ours      [][]float64 `json:"ours"`
}

// Curve is the curve of one round, from the milliseconds at which each Job was there.
func Curve(at []float64) []float64 {
	sorted := slices.Sorted(slices.Values(at))
	points := make([]float64, 0, CurvePoints)
	for i := range CurvePoints {
		if n := (i + 1) * len(sorted) / CurvePoints; n > 0 {
			points = append(points, sorted[n-1])
		}
	}
	return rounded(points)
}

// thinned leaves at most so many values, at even distances.
func thinned(values []float64, most int) []float64 {
	if len(values) <= most {
		return values
	}
	left := make([]float64, most)
	for i := range left {
		left[i] = values[i*(len(values)-1)/(most-1)]
	}
	return left
}

// rounded leaves as much of each value as a measurement is worth.
func rounded(values []float64) []float64 {
	result := make([]float64, len(values))
	for i, value := range values {
		result[i] = Round(value)
	}
	return result
}

// Round leaves four digits.
func Round(value float64) float64 {
	const digits = 4
	result, err := strconv.ParseFloat(strconv.FormatFloat(value, 'g', digits, 64), 64)
	if err != nil {
		return value
	}
	return result
}

// Ratio returns a ratio for a figure, and nil if it is none, as 0/0.
func Ratio(ratio float64) *float64 {
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) {
		return nil
	}
	ratio = Round(ratio)
	return &ratio
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

// check fails if two figures of a measurement cannot be told apart.
func (r *Run) check() error {
	seen := map[[2]string]bool{}
	for _, m := range r.Measurements {
		for _, f := range m.Figures {
			key := [2]string{m.Name, f.Work}
			if seen[key] {
				return fmt.Errorf("%s has two figures of %q", m.Name, f.Work)
			}
			seen[key] = true
		}
	}
	return nil
}

// numbersInLines is a list of numbers as the encoder indents it.
var numbersInLines = regexp.MustCompile(`\[\s+[-+\d.e]+(?:,\s+[-+\d.e]+)*\s+\]`)

// Write replaces the file by the run.
func (r *Run) Write(path string) error {
	if err := r.check(); err != nil {
		return err
	}
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

// Read reads the runs of these files.
func Read(paths ...string) (runs []*Run, err error) {
	for _, path := range paths {
		run, err := read(path)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", filepath.Base(path), err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func read(path string) (*Run, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	run := &Run{}
	if err := json.Unmarshal(text, run); err != nil {
		return nil, err
	}
	if run.Version != Version {
		return nil, fmt.Errorf("it has version %d of the schema, and this program knows version %d", run.Version, Version)
	}
	if len(run.Measurements) == 0 {
		return nil, errors.New("nothing was measured")
	}
	return run, run.check()
}
