// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/hack/demo/board"
)

func TestPlainWritesAllThatWasSaidBeforeTheEnd(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	shown := board.New("emulated")
	shown.Begin(board.Title{Name: "burst", Story: strings.Repeat("x", 70) + " and more words", Number: 1, Of: 5})
	shown.Say(board.Passed, "3 Jobs due, 3 created")
	shown.Say(board.Failed, "never more active than max")
	shown.Begin(board.Title{Name: "trickle", Story: "Slowly.", Number: 2, Of: 5})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	g.Expect(Plain(ctx, shown, &out)).To(Succeed())
	g.Expect(out.String()).To(Equal("Scene 1 of 5: burst\n" +
		"  " + strings.Repeat("x", 70) + " and\n  more words\n" +
		"      ok    3 Jobs due, 3 created\n" +
		"      FAIL  never more active than max\n" +
		"\nScene 2 of 5: trickle\n  Slowly.\n\n"))
}

func TestPlainWritesWhatIsSaidMeanwhile(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	shown := board.New("emulated")
	written := make(lineChannel)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Plain(ctx, shown, written) }()
	shown.Say(board.Done, "pushed 3")
	g.Eventually(written).WithTimeout(eventually).Should(Receive(HaveSuffix(" s  pushed 3\n")))
	shown.Say(board.Seen, "mode Events")
	g.Eventually(written).WithTimeout(eventually).Should(Receive(HaveSuffix(" s  the operator reports mode Events\n")))
	cancel()
	g.Eventually(written).WithTimeout(eventually).Should(Receive(Equal("\n")))
	g.Eventually(ended).WithTimeout(eventually).Should(Receive(BeNil()))
}

func TestPlainEndsIfNobodyCanRead(t *testing.T) {
	t.Parallel()
	shown := board.New("emulated")
	shown.Say(board.Done, "pushed 3")
	NewWithT(t).Expect(Plain(t.Context(), shown, broken{})).To(MatchError(errBroken))
}

type lineChannel chan string

func (c lineChannel) Write(line []byte) (int, error) {
	c <- string(line)
	return len(line), nil
}

var errBroken = errors.New("broken pipe")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }
