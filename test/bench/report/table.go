// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

// Most measurements have a line for each figure. Where the work of a figure has two parts, as in "100 ScaledJobs: CPU at
// rest", a line can have several figures: the first parts are the columns or the lines.
const (
	scaleAcross  = "scale"
	rivalsAcross = "keda"
)

// firstPartsDown have the first parts as lines.
var firstPartsDown = []string{"strategies", "scrapes"}

// none is an empty cell.
const none = "–"

// table draws the figures of these measurements. It is empty if none was taken.
func table(names []string, runs []*results.Run) (string, error) {
	var rows []*results.Row
	for _, name := range names {
		merged, err := results.Merge(runs, name)
		if err != nil {
			return "", err
		}
		rows = append(rows, merged...)
	}
	switch {
	case len(rows) == 0:
		return "", nil
	case slices.Equal(names, []string{scaleAcross}), slices.Equal(names, []string{rivalsAcross}):
		return crossTable(rows, func(first, second string) (line, column string) { return second, first })
	case len(names) == 1 && slices.Contains(firstPartsDown, names[0]):
		return crossTable(rows, func(first, second string) (line, column string) { return first, second })
	default:
		return listTable(rows)
	}
}

// runsTable tells on what the runs were taken. It is empty if there are none.
func runsTable(runs []*results.Run) string {
	if len(runs) == 0 {
		return ""
	}
	cells := [][]string{{"run", "commit", "Go", "Kubernetes", "Redis", "CPU", "load average before", "measured"}}
	for _, run := range runs {
		commit := run.Commit
		if run.Modified {
			commit += ", with changes"
		}
		cells = append(cells, []string{
			run.Date.Format("2006-01-02 15:04"), commit, strings.TrimPrefix(run.Go, "go"), strings.TrimPrefix(run.Kubernetes, "v"),
			run.Redis, fmt.Sprintf("%d cores, %s", run.Cores, run.CPU), number(run.Load), measuredIn(run),
		})
	}
	return markdown(cells)
}

// measuredIn are the names of what was measured in a run.
func measuredIn(run *results.Run) string {
	names := make([]string, len(run.Measurements))
	for i, m := range run.Measurements {
		names[i] = m.Name
	}
	return strings.Join(names, ", ")
}

// listTable has a line for each figure. A column in which nothing stands is left out.
func listTable(rows []*results.Row) (string, error) {
	beside := "compared with"
	if !slices.ContainsFunc(rows, func(r *results.Row) bool { return !loopOnly(r) }) {
		beside = results.Loop
	}
	cells := [][]string{{"work", beside, "operator", "ratio", "target"}}
	for _, row := range rows {
		line := []string{row.Work(), reference(row, beside), ours(row), ratio(row), target(row)}
		if contains(cells, line[0]) {
			return "", fmt.Errorf("there are two lines of %q", line[0])
		}
		cells = append(cells, line)
	}
	return markdown(withoutEmptyColumns(cells)), nil
}

func contains(cells [][]string, first string) bool {
	return slices.ContainsFunc(cells, func(line []string) bool { return line[0] == first })
}

// loopOnly reports whether a figure is compared with the minimal loop, or with nothing that has to be named.
func loopOnly(row *results.Row) bool {
	return slices.Contains([]string{results.Loop, results.Limit, results.Nothing}, row.Figures[0].Beside)
}

func reference(row *results.Row, header string) string {
	figure := row.Figures[0]
	if figure.Beside == results.Limit || figure.Beside == results.Nothing {
		return none
	}
	shown := spread(row.Reference, figure.Unit)
	if figure.Beside == header {
		return shown
	}
	return figure.Beside + ": " + shown
}

func ours(row *results.Row) string { return spread(row.Ours, row.Figures[0].Unit) }

func ratio(row *results.Row) string {
	if row.Ratio == nil || row.Figures[0].Beside == results.Limit {
		return none
	}
	return spread(*row.Ratio, "")
}

// target is what is aimed at, and whether it is missed.
func target(row *results.Row) (aim string) {
	figure := row.Figures[0]
	switch {
	case figure.Beside == results.Limit:
		aim = "≤ " + withUnit(number(figure.Reference), figure.Unit)
	case figure.Most > 0:
		aim = "≤ " + withUnit(number(figure.Most), figure.Unit)
	case figure.AtMost > 0:
		aim = "ratio ≤ " + number(figure.AtMost)
	case figure.AtLeast > 0:
		aim = "ratio ≥ " + number(figure.AtLeast)
	default:
		return none
	}
	if row.Missed() {
		aim += ", missed"
	}
	return aim
}

// crossTable has the figures in lines and columns, which place takes from the two parts of their works. Where a figure
// is compared with something, the ratio stands beside it.
func crossTable(rows []*results.Row, place func(first, second string) (line, column string)) (string, error) {
	cells := [][]string{{""}}
	for _, row := range rows {
		first, second, found := strings.Cut(row.Work(), ": ")
		if !found {
			return "", fmt.Errorf("the work %q has no second part", row.Work())
		}
		line, column := place(first, second)
		set(&cells, line+times(row), column, crossCell(row))
	}
	for _, line := range cells[1:] {
		for x := range line {
			line[x] = cmp.Or(line[x], none)
		}
	}
	return markdown(cells), nil
}

// times says what the ratio beside a figure is to.
func times(row *results.Row) string {
	if ratio(row) == none {
		return ""
	}
	return ", and times that of the " + row.Figures[0].Beside
}

func crossCell(row *results.Row) string {
	cell := ours(row)
	if shown := ratio(row); shown != none {
		cell += ", " + shown + " ×"
	}
	if aim := target(row); aim != none {
		cell += " (target " + aim + ")"
	}
	return cell
}

// set fills in a cell, in a new line or column if there is none of this name yet.
func set(cells *[][]string, line, column, content string) {
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

// withoutEmptyColumns leaves out the columns that have nothing below their header.
func withoutEmptyColumns(cells [][]string) [][]string {
	result := make([][]string, len(cells))
	for x := range cells[0] {
		empty := !slices.ContainsFunc(cells[1:], func(line []string) bool { return line[x] != none })
		for y := range cells {
			if !empty {
				result[y] = append(result[y], cells[y][x])
			}
		}
	}
	return result
}

// markdown writes a table whose first line is the header.
func markdown(cells [][]string) string {
	var text strings.Builder
	for y, line := range cells {
		text.WriteString("| " + strings.Join(line, " | ") + " |\n")
		if y == 0 {
			text.WriteString(strings.Repeat("|---", len(line)) + "|\n")
		}
	}
	return text.String()
}
