// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/hack/demo/board"
)

var update = flag.Bool("update", false, "write the golden files")

func TestFrame(t *testing.T) {
	t.Parallel()
	for _, width := range []int{80, 100, 120} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			golden := filepath.Join("testdata", fmt.Sprintf("frame-%d.txt", width))
			drawn := visible(frame(snapshot(), width, 22))
			if *update {
				g.Expect(os.WriteFile(golden, []byte(drawn), 0o600)).To(Succeed())
			}
			g.Expect(os.ReadFile(golden)).To(BeEquivalentTo(drawn))
		})
	}
}

func TestFrameFitsEveryTerminal(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for width := 1; width < 200; width += 7 {
		for height := 1; height < 40; height++ {
			lines := strings.Split(frame(snapshot(), width, height), "\n")
			g.Expect(len(lines)).To(BeNumerically("<=", height))
			for _, line := range lines {
				g.Expect(ansi.StringWidth(line)).To(BeNumerically("<=", max(width, 2)))
			}
		}
	}
}

// visible returns the text without colors and trailing spaces.
func visible(drawn string) string {
	var text strings.Builder
	for line := range strings.Lines(ansi.Strip(drawn)) {
		text.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return text.String()
}

// snapshot returns a board in the middle of a scene.
func snapshot() board.Snapshot {
	return board.Snapshot{
		Redis: "emulated; REDIS=host:port takes a real one",
		Playing: board.Title{
			Name:   "burst",
			Story:  "Hundreds of messages arrive at once, and something happens that needs more than a line of eighty characters.",
			Number: 1, Of: 5,
		},
		Rows: []board.Row{
			reportedRow("image-processor", "demo:image-resize-queue", scaledjobv1.ScaledJobStatus{
				QueueDepth: new(int64(400)), ActiveJobs: 20, DesiredJobs: new(int32(20)), Mode: scaledjobv1.ModeTracking,
				Conditions: []metav1.Condition{{Type: scaledjobv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reconciled"}},
			}, 4300*time.Microsecond, 0, 0, 12, 400, 400, 200, 200, 100),
			reportedRow("email-sender", "demo:email-queue", scaledjobv1.ScaledJobStatus{
				QueueDepth: new(int64(7)), ActiveJobs: 2, DesiredJobs: new(int32(2)), Mode: scaledjobv1.ModePolling,
				Conditions: []metav1.Condition{{Type: scaledjobv1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Unreachable"}},
			}, 5300*time.Millisecond, 7, 7, board.Unknown, board.Unknown, 0),
			reportedRow("report-builder", "demo:a-queue-with-a-name-that-is-too-long", scaledjobv1.ScaledJobStatus{}, 0),
		},
		Log: []board.Entry{
			{Kind: board.Begun, Text: "Scene 1 of 5: burst"},
			{Kind: board.Told, Text: "a story"},
			{After: 100 * time.Millisecond, Kind: board.Done, Text: "pushed 400 for image-processor"},
			{After: 5 * time.Second, Kind: board.Seen, Text: "email-sender: Ready False (Unreachable)"},
			{After: 12345 * time.Millisecond, Kind: board.Passed, Text: "40 Jobs due, 40 created"},
			{After: 12345 * time.Millisecond, Kind: board.Failed, Text: "never more active than max: at most 21 of 20"},
		},
	}
}

func reportedRow(
	name, queue string, status scaledjobv1.ScaledJobStatus, reaction time.Duration, history ...int64,
) board.Row {
	return board.Row{History: history, Reaction: reaction, ScaledJob: &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       scaledjobv1.ScaledJobSpec{QueueName: queue, MaxReplicas: new(int32(20))},
		Status:     status,
	}}
}
