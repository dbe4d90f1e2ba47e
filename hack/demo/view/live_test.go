// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"io"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/hack/demo/board"
)

const eventually = 30 * time.Second

func TestLiveEndsWithTheUsersKeys(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		key  string
		want error
	}{
		"q":      {"q", ErrQuit},
		"ctrl-c": {"\x03", ErrInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			keys, keyboard := io.Pipe()
			t.Cleanup(func() { _ = keyboard.Close() })
			ended := make(chan error, 1)
			go func() { ended <- Live(t.Context(), board.New("emulated"), keys, io.Discard) }()
			g.Expect(io.WriteString(keyboard, "x"+test.key)).Error().NotTo(HaveOccurred())
			g.Eventually(ended).WithTimeout(eventually).Should(Receive(MatchError(test.want)))
		})
	}
}

func TestLiveEndsWithItsContext(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	keys, keyboard := io.Pipe()
	t.Cleanup(func() { _ = keyboard.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Live(ctx, board.New("emulated"), keys, io.Discard) }()
	cancel()
	g.Eventually(ended).WithTimeout(eventually).Should(Receive(BeNil()))
}

func TestScreenFollowsTheSizeOfTheTerminal(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	shown := board.New("emulated")
	shown.Begin(board.Title{Name: "burst", Number: 1, Of: 5})
	var model tea.Model = screen{board: shown}
	g.Expect(model.View().Content).To(BeEmpty())
	for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 120, Height: 40}} {
		model, _ = model.Update(size)
		current, _ := shown.Look()
		g.Expect(model.View().AltScreen).To(BeTrue())
		g.Expect(model.View().Content).To(Equal(frame(current, size.Width, size.Height)))
	}
}
