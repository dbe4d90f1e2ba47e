// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package results

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// none is an empty cell.
const none = "–"

// across are the measurements whose works have two parts, as in "100 ScaledJobs: CPU at rest". The first part is the
// column, and the second the line.
var across = []string{"scale", "keda"}

// Table draws the figures of measurements in Markdown: a line for each figure, or a column for each first part of the
// works if it is one of across. It fails if no run has any.
func Table(runs []*Run, names ...string) (string, error) {
	var rows []*Row
	for _, name := range names {
		merged, err := Merge(runs, name)
		if err != nil {
			return "", err
		}
		rows = append(rows, merged...)
	}
	switch {
	case len(rows) == 0:
		return "", fmt.Errorf("there are no results of %s", strings.Join(names, " "))
	case len(names) == 1 && slices.Contains(across, names[0]):
		return crossTable(rows), nil
	default:
		return listTable(rows), nil
	}
}

// Runs draws what the runs were taken on.
func Runs(runs []*Run) string {
	cells := [][]string{{"run", "commit", "Go", "Kubernetes", "Redis", "CPU", "load average before", "measured"}}
	for _, run := range runs {
		commit := run.Commit
		if run.Modified {
			commit += ", with changes"
		}
		var measured []string
		for _, m := range run.Measurements {
			measured = append(measured, m.Name)
		}
		cells = append(cells, []string{
			run.Date.Format("2006-01-02 15:04"), commit, strings.TrimPrefix(run.Go, "go"), strings.TrimPrefix(run.Kubernetes, "v"),
			run.Redis, fmt.Sprintf("%d cores, %s", run.Cores, run.CPU), Number(run.Load), strings.Join(measured, ", "),
		})
	}
	return Markdown(cells)
}

func listTable(rows []*Row) string {
	cells := [][]string{{"work", Loop, "operator", "ratio", "target"}}
	for _, row := range rows {
		reference, ratio := none, none
		if row.Ratio.Least > 0 {
			reference, ratio = row.Reference.show(row.First.Unit), row.Ratio.show("")
		}
		cells = append(cells, []string{row.First.Work, reference, row.Ours.show(row.First.Unit), ratio, row.target()})
	}
	return Markdown(cells)
}

// target is what is aimed at, and whether it is missed.
func (r *Row) target() (aim string) {
	switch {
	case r.First.Most > 0:
		aim = "≤ " + WithUnit(r.First.Most, r.First.Unit)
	case r.First.AtMost > 0:
		aim = "ratio ≤ " + Number(r.First.AtMost)
	case r.First.AtLeast > 0:
		aim = "ratio ≥ " + Number(r.First.AtLeast)
	default:
		return none
	}
	if r.missed() {
		aim += ", missed"
	}
	return aim
}

// crossTable shows the ratio next to a figure that is compared with the minimal loop.
func crossTable(rows []*Row) string {
	cells := [][]string{{""}}
	for _, row := range rows {
		column, line, _ := strings.Cut(row.First.Work, ": ")
		shown := row.Ours.show(row.First.Unit)
		if row.Ratio.Least > 0 {
			line += ", and times that of the " + Loop
			shown += ", " + row.Ratio.show("") + " ×"
		}
		if aim := row.target(); aim != none {
			shown += " (target " + aim + ")"
		}
		Set(&cells, line, column, shown)
	}
	return Markdown(cells)
}

// Set fills in a cell, in a new line or column if there is none of this name yet.
func Set(cells *[][]string, line, column, content string) {
	header := (*cells)[0]
	x := slices.Index(header, column)
	if x < 0 {
		x = len(header)
		for i := range *cells {
			(*cells)[i] = append((*cells)[i], "")
		}
		(*cells)[0][x] = column
	}
	y := slices.IndexFunc(*cells, func(cells []string) bool { return cells[0] == line })
	if y < 0 {
		y = len(*cells)
		*cells = append(*cells, make([]string, len((*cells)[0])))
		(*cells)[y][0] = line
	}
	(*cells)[y][x] = content
}

// Markdown writes a table whose first line is the header.
func Markdown(cells [][]string) string {
	var text strings.Builder
	for y, line := range cells {
		text.WriteString("|")
		for _, cell := range line {
			if y > 0 {
				cell = cmp.Or(cell, none)
			}
			text.WriteString(" " + cell + " |")
		}
		text.WriteString("\n")
		if y == 0 {
			text.WriteString(strings.Repeat("|---", len(line)) + "|\n")
		}
	}
	return text.String()
}

// show has the median, and in brackets between which values the others are, if they differ.
func (s Spread) show(unit string) string {
	shown := WithUnit(s.Median, unit)
	if least, most := Number(s.Least), Number(s.Most); least != most {
		shown += " (" + least + "–" + most + ")"
	}
	return shown
}

// WithUnit is a number and its unit, if it has one.
func WithUnit(value float64, unit string) string {
	if unit == "" {
		return Number(value)
	}
	return strings.Replace(Number(value)+" "+unit, " /s", " per second", 1)
}

// Number has as much of a number as a measurement is worth: three digits, and all before the point. There is a comma
// between thousands.
func Number(value float64) string {
	const digits, group = 3, 3
	decimals := digits
	if value != 0 {
		decimals = digits - 1 - int(math.Floor(math.Log10(math.Abs(value))))
	}
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(value, 'f', min(max(decimals, 0), digits), 64), ".")
	for at := len(whole) - group; at > 0 && whole[at-1] != '-'; at -= group {
		whole = whole[:at] + "," + whole[at:]
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction != "" {
		return whole + "." + fraction
	}
	return whole
}
