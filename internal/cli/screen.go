// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/layout"
	"miracle.dev/scaledjob-operator/internal/cli/live"
)

const (
	// maxTrend is the width of the last column at most, and the number of samples that are kept. minTrend is its least.
	maxTrend = 40
	minTrend = 8
	// maxNote is the number of lines of an error at most.
	maxNote = 3
)

// screen implements tea.Model: a table of ScaledJobs that is read again and again. The program that shows it is the
// only one to use it.
type screen struct {
	load     func() ([]scaledjobv1.ScaledJob, error)
	interval time.Duration
	now      func() time.Time
	// namespaces is true if the table has a column with them, and nothing is shown instead of an empty table.
	namespaces bool
	nothing    string

	rows []shown
	// at is when the rows were read. note says why they were not read again; empty if they were.
	at   time.Time
	note string
	// width and height are 0 until they are known, and ended is why the user has ended the program.
	width, height int
	ended         error
}

// shown is a ScaledJob with samples of its depth, the oldest first. A sample below 0 is unknown.
type shown struct {
	is      *scaledjobv1.ScaledJob
	history []int64
}

// loaded is the result of a read.
type loaded struct {
	all []scaledjobv1.ScaledJob
	err error
}

func newScreen(load func() ([]scaledjobv1.ScaledJob, error), interval time.Duration, now func() time.Time) *screen {
	return &screen{load: load, interval: interval, now: now}
}

// show replaces the rows, and adds a sample to the history of each.
func (s *screen) show(all []scaledjobv1.ScaledJob) {
	before := map[string][]int64{}
	for _, row := range s.rows {
		before[row.is.Namespace+"/"+row.is.Name] = row.history
	}
	s.rows, s.at, s.note = nil, s.now(), ""
	for i := range all {
		sample := int64(-1)
		if depth := all[i].Status.QueueDepth; depth != nil {
			sample = *depth
		}
		history := slices.Concat(before[all[i].Namespace+"/"+all[i].Name], []int64{sample})
		s.rows = append(s.rows, shown{&all[i], history[max(0, len(history)-maxTrend):]})
	}
}

// Init begins to wait for the next read.
func (s *screen) Init() tea.Cmd { return s.loadLater() }

func (s *screen) loadLater() tea.Cmd {
	return tea.Tick(s.interval, func(time.Time) tea.Msg {
		all, err := s.load()
		return loaded{all, err}
	})
}

// Update handles a key, a read, or a new size of the terminal.
func (s *screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = message.Width, message.Height
	case tea.KeyPressMsg:
		switch message.String() {
		case "q":
			return s, tea.Quit
		case "ctrl+c":
			s.ended = &userError{code: exitInterrupted}
			return s, tea.Quit
		}
	case loaded:
		if message.err != nil {
			s.note = sentence(message.err)
		} else {
			s.show(message.all)
		}
		return s, s.loadLater()
	}
	return s, nil
}

// View draws the screen.
func (s *screen) View() tea.View {
	view := tea.NewView("")
	view.AltScreen = true
	if s.width > 0 && s.height > 0 {
		view.SetContent(s.frame())
	}
	return view
}

// frame returns as many lines as the terminal has: a title, the table, what could not be read, and the keys.
func (s *screen) frame() string {
	bottom := []string{live.Faint.Render("q quit")}
	if s.note != "" {
		note := strings.Split(strings.TrimSpace(layout.Hanging("", s.note, s.width)), "\n")
		for _, line := range note[:min(len(note), maxNote)] {
			bottom = append(bottom, live.Bad.Render(line))
		}
	}
	lines := append([]string{live.Title.Render("ScaledJobs by backlog") + live.Faint.Render("  "+s.at.Format(time.TimeOnly)), ""},
		s.table(s.height-len(bottom)-3)...)
	for len(lines) < s.height-len(bottom) {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, min(len(lines), s.height-len(bottom)))], bottom...)
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, s.width, "…")
	}
	return strings.Join(lines[:min(len(lines), s.height)], "\n")
}

// table returns the table with at most so many lines after its header.
func (s *screen) table(most int) []string {
	if len(s.rows) == 0 {
		return []string{s.nothing}
	}
	rows := s.rows
	if hidden := len(rows) - most; hidden > 0 {
		rows = rows[:max(0, most-1)]
	}
	lines := live.Table(s.columns(), rows, " ")
	if hidden := len(s.rows) - len(rows); hidden > 0 {
		lines = append(lines, live.Faint.Render(fmt.Sprintf("… and %d more", hidden)))
	}
	return lines
}

// column is a column of the table. Where not all fit, those with the lowest rank are left out.
type column struct {
	live.Column[shown]

	rank int
}

// columns returns those that fit, as wide as their texts. The last one gets what is left.
func (s *screen) columns() []live.Column[shown] {
	all := []column{
		newColumn("NAME", 100, false, live.Name), newColumn("DEPTH", 90, true, live.Depth), newColumn("ACTIVE", 80, true, live.Active),
		newColumn("PENDING", 40, true, live.Pending), newColumn("DESIRED", 70, true, live.Desired), newColumn("MAX", 30, true, live.Limit),
		newColumn("MODE", 20, false, live.Mode), newColumn("READY", 50, false, live.Ready), newColumn("LIMITED", 60, false, live.Limited),
	}
	if s.namespaces {
		all = append([]column{newColumn("NAMESPACE", 65, false, namespaceCell)}, all...)
	}
	for i := range all {
		all[i].Width = len(all[i].Title)
		for _, row := range s.rows {
			text, _ := all[i].Cell(row)
			all[i].Width = max(all[i].Width, ansi.StringWidth(text))
		}
	}
	for len(all) > 2 && widthOfAll(all) > s.width {
		all = withoutLowest(all)
	}
	left := s.width - widthOfAll(all)
	var columns []live.Column[shown]
	for _, each := range all {
		if each.Title == "NAME" && left < 0 {
			each.Width = max(1, each.Width+left)
		}
		columns = append(columns, each.Column)
	}
	if trend := min(left-1, maxTrend); trend >= minTrend {
		columns = append(columns, live.Column[shown]{Title: "TREND", Width: trend, Cell: func(row shown) (string, lipgloss.Style) {
			return live.Sparkline(row.history, trend), live.Accent
		}})
	}
	return columns
}

func newColumn(title string, rank int, right bool, cell func(*scaledjobv1.ScaledJob) (string, lipgloss.Style)) column {
	return column{live.Column[shown]{Title: title, Right: right, Cell: func(row shown) (string, lipgloss.Style) {
		text, style := cell(row.is)
		return layout.Printable(text), style
	}}, rank}
}

func namespaceCell(sj *scaledjobv1.ScaledJob) (string, lipgloss.Style) {
	return sj.Namespace, live.Plain
}

// widthOfAll returns the width of the table, with a space between two columns.
func widthOfAll(all []column) int {
	width := len(all) - 1
	for _, each := range all {
		width += each.Width
	}
	return width
}

func withoutLowest(all []column) []column {
	lowest := 0
	for i := range all {
		if all[i].rank < all[lowest].rank {
			lowest = i
		}
	}
	return append(all[:lowest:lowest], all[lowest+1:]...)
}
