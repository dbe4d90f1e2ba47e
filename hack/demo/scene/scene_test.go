// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/environment"
)

const name = "image-processor"

// Each case is a scene with 15 messages, for which two Jobs are due.
func TestPromisesAreChecked(t *testing.T) {
	t.Parallel()
	const exact, limited = "2 Jobs due, 2 created", "never more active than max: at most 2 of 2"
	for title, test := range map[string]struct {
		happens func(*board.Board)
		passed  []string
		failed  []string
	}{
		"all is well": {
			happens: func(b *board.Board) { start(b, 2); finish(b, 2); b.NoteDepth(name, 0) },
			passed:  []string{exact, limited},
		},
		"a Job is missing": {
			happens: func(b *board.Board) { start(b, 1); finish(b, 1) },
			passed:  []string{"never more active than max: at most 1 of 2"},
			failed:  []string{name + ": 2 Jobs due, 1 created"},
		},
		"a Job too many, and too many at once": {
			happens: func(b *board.Board) { start(b, 3); finish(b, 3) },
			failed:  []string{name + ": 2 Jobs due, 3 created", "never more active than max: at most 3 of 2"},
		},
		"a Job is killed": {
			happens: func(b *board.Board) { start(b, 2); finish(b, 1); b.NoteDeleted(job(2)) },
			passed:  []string{exact, limited},
			failed:  []string{name + ": 1 Job deleted before the end"},
		},
		"a message is left": {
			happens: func(b *board.Board) { start(b, 2); finish(b, 2); b.NoteDepth(name, 1) },
			passed:  []string{exact, limited},
			failed:  []string{name + ": all Jobs have finished, but messages are left: 1"},
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			p := &performance{Stage: newStage()}
			p.Board.Begin(board.Title{})
			p.Board.NotePush(name, 15, time.Time{})
			test.happens(p.Board)
			p.checkPromises()
			g.Expect(said(p.Board, board.Passed)).To(Equal(test.passed))
			g.Expect(said(p.Board, board.Failed)).To(Equal(test.failed))
			g.Expect(p.failed).To(Equal(test.failed))
		})
	}
}

// What the operator says to do is shown only if it still polls after a push.
func TestARedisWithoutNotificationsIsExplained(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason     string
		mode       scaledjobv1.ScalingMode
		said, seen []string
	}{
		"they work":         {scaledjobv1.ReasonSubscribed, scaledjobv1.ModeEvents, nil, nil},
		"tracking works":    {scaledjobv1.ReasonNotConfigured, scaledjobv1.ModeTracking, []string{tracked}, nil},
		"neither works":     {scaledjobv1.ReasonNotConfigured, scaledjobv1.ModePolling, []string{tracked}, []string{"Say CONFIG SET."}},
		"they are rejected": {scaledjobv1.ReasonPermissionDenied, scaledjobv1.ModePolling, nil, []string{"Say CONFIG SET."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			stage := newStage()
			reported := newScaledJob()
			reported.Status.Conditions = []metav1.Condition{{
				Type: scaledjobv1.ConditionNotificationsActive, Reason: test.reason, Message: "Say CONFIG SET.",
			}}
			stage.Board.NoteScaledJob(reported)
			g.Expect(stage.explainSilence(t.Context())).To(Succeed())
			reported.Status.Mode = test.mode
			stage.explainPolling()
			g.Expect(said(stage.Board, board.Done)).To(HaveLen(len(test.said)))
			for i, part := range test.said {
				g.Expect(said(stage.Board, board.Done)[i]).To(HaveSuffix(part))
			}
			g.Expect(said(stage.Board, board.Seen)).To(Equal(test.seen))
		})
	}
}

// newStage returns a stage with one ScaledJob, for the user's Redis.
func newStage() Stage {
	return Stage{
		Environment: &environment.Environment{Redis: &environment.Redis{}},
		Board:       board.New("fake", newScaledJob()),
	}
}

func newScaledJob() *scaledjobv1.ScaledJob {
	return &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       scaledjobv1.ScaledJobSpec{Threshold: 10, MaxReplicas: new(int32(2))},
	}
}

// start makes this many Jobs appear, and finish makes this many of them complete.
func start(b *board.Board, count int) {
	for i := range count {
		b.NoteJob(job(i+1), time.Time{})
	}
}

func finish(b *board.Board, count int) {
	for i := range count {
		finished := job(i + 1)
		finished.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		b.NoteJob(finished, time.Time{})
	}
}

func job(number int) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		UID: types.UID(fmt.Sprint(number)), Labels: map[string]string{scaledjobv1.LabelScaledJob: name},
	}}
}

// said returns the entries of a kind.
func said(b *board.Board, kind board.Kind) (texts []string) {
	snapshot, _ := b.Look()
	for _, entry := range snapshot.Log {
		if entry.Kind == kind {
			texts = append(texts, entry.Text)
		}
	}
	return texts
}
