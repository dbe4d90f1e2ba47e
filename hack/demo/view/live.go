// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"miracle.dev/scaledjob-operator/hack/demo/board"
)

// The errors of [Live] when the user ends it.
var (
	ErrQuit        = errors.New("quit with the key q")
	ErrInterrupted = errors.New("interrupted")
)

// refreshInterval is the time between two updates of the screen.
const refreshInterval = 100 * time.Millisecond

// Live shows the board on a terminal until ctx ends, and then restores the screen. If the user ends it, it returns
// ErrQuit or ErrInterrupted.
func Live(ctx context.Context, shown *board.Board, in io.Reader, out io.Writer) error {
	program := tea.NewProgram(screen{board: shown},
		tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	defer context.AfterFunc(ctx, program.Quit)()
	last, err := program.Run()
	if err != nil {
		return fmt.Errorf("drawing on the terminal: %w", err)
	}
	return last.(screen).ended
}

// screen implements tea.Model.
type screen struct {
	board         *board.Board
	width, height int   // 0 until they are known
	ended         error // why the user has ended it
}

type refresh struct{}

func (s screen) Init() tea.Cmd { return s.refreshLater() }

func (s screen) refreshLater() tea.Cmd {
	return tea.Tick(refreshInterval, func(time.Time) tea.Msg { return refresh{} })
}

func (s screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = message.Width, message.Height
	case tea.KeyPressMsg:
		switch message.String() {
		case "q":
			s.ended = ErrQuit
			return s, tea.Quit
		case "ctrl+c":
			s.ended = ErrInterrupted
			return s, tea.Quit
		}
	case refresh:
		return s, s.refreshLater()
	}
	return s, nil
}

func (s screen) View() tea.View {
	view := tea.NewView("")
	view.AltScreen = true
	if s.width > 0 {
		snapshot, _ := s.board.Look()
		view.SetContent(frame(snapshot, s.width, s.height))
	}
	return view
}
