// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package board_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/hack/demo/board"
)

const name = "images"

func TestJobIsCountedOnceAndReactsAtItsFirstSighting(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := newBoard()
	pushed := time.Unix(0, 0)
	b.NotePush(name, 11, pushed)
	g.Expect(onlyRow(b).Awaiting).To(BeTrue())
	b.NoteJob(job("a"), pushed.Add(time.Second))
	b.NoteJob(job("a"), pushed.Add(2*time.Second))
	b.NoteJob(job("b"), pushed.Add(2*time.Second))
	row := onlyRow(b)
	g.Expect(row.Awaiting).To(BeFalse())
	g.Expect(row.Reaction).To(Equal(time.Second))
	g.Expect(row.InScene).To(Equal(board.Tally{
		Pushed: 11, Due: 2, Created: 2, Peak: 2, Reactions: []time.Duration{time.Second},
	}))
}

func TestPeakIsOfJobsActiveAtTheSameTime(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := newBoard()
	b.NoteJob(job("a"), time.Time{})
	b.NoteJob(job("b"), time.Time{})
	b.NoteJob(job("a", batchv1.JobComplete), time.Time{})
	b.NoteJob(job("b", batchv1.JobFailed), time.Time{})
	b.NoteJob(job("c"), time.Time{})
	row := onlyRow(b)
	g.Expect(row.InScene.Peak).To(Equal(2))
	g.Expect(row.Unfinished).To(Equal(1))
	b.Begin(board.Title{})
	g.Expect(onlyRow(b).InScene).To(Equal(board.Tally{Peak: 1}))
}

func TestJobIsKilledIfItGoesBeforeItFinishes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := newBoard()
	for _, uid := range []types.UID{"a", "b"} {
		b.NoteJob(job(uid), time.Time{})
	}
	b.NoteJob(job("a", batchv1.JobComplete), time.Time{})
	b.NoteDeleted(job("a"))
	g.Expect(onlyRow(b).InScene.Killed).To(BeZero())
	b.NoteDeleted(job("b"))
	row := onlyRow(b)
	g.Expect(row.InScene.Killed).To(Equal(1))
	g.Expect(row.Unfinished).To(BeZero())
	g.Expect(row.InScene.Created).To(Equal(2))
}

func TestJobsOfOthersAreNoneOfIts(t *testing.T) {
	t.Parallel()
	b := newBoard()
	other := job("a")
	other.Labels[scaledjobv1.LabelScaledJob] = "other"
	b.NoteJob(other, time.Time{})
	NewWithT(t).Expect(onlyRow(b).InScene.Created).To(BeZero())
}

func TestHistoryKeepsTheNewestSamples(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := newBoard()
	g.Expect(onlyRow(b).Depth()).To(BeEquivalentTo(board.Unknown))
	for depth := range int64(1000) {
		b.NoteDepth(name, depth)
	}
	row := onlyRow(b)
	g.Expect(len(row.History)).To(BeNumerically("<", 1000))
	g.Expect(row.Depth()).To(BeEquivalentTo(999))
}

func TestOnlyModeAndReadinessAreSaid(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := newBoard()
	ready := reported(scaledjobv1.ModeEvents, metav1.ConditionTrue, "Reconciled")
	b.NoteScaledJob(ready)
	busy := ready.DeepCopy()
	busy.Status.ActiveJobs = 7
	b.NoteScaledJob(busy)
	b.NoteScaledJob(reported(scaledjobv1.ModePolling, metav1.ConditionTrue, "Reconciled"))
	b.NoteScaledJob(reported(scaledjobv1.ModePolling, metav1.ConditionFalse, "Unreachable"))

	snapshot, _ := b.Look()
	var said []string
	for _, entry := range snapshot.Log {
		g.Expect(entry.Kind).To(Equal(board.Seen))
		said = append(said, entry.Text)
	}
	g.Expect(said).To(Equal([]string{
		"images: mode Events, Ready True (Reconciled)",
		"images: mode Polling",
		"images: Ready False (Unreachable)",
	}))
}

func TestASnapshotStaysAsItIs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := newBoard()
	b.Begin(board.Title{Name: "burst", Story: "It happens.", Number: 1, Of: 5})
	before, _ := b.Look()
	b.Say(board.Done, "pushed %d", 3)
	b.NoteDepth(name, 3)
	g.Expect(before.Log).To(HaveLen(2))
	g.Expect(before.Log[0].Text).To(Equal("Scene 1 of 5: burst"))
	g.Expect(before.Rows[0].History).To(BeEmpty())

	after, _ := b.Look()
	g.Expect(after.Log).To(HaveLen(3))
	g.Expect(after.Log[2].Text).To(Equal("pushed 3"))
}

func TestAwaitReturnsWhenTheConditionIsTrue(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := newBoard()
	returned := make(chan error)
	go func() {
		returned <- b.Await(t.Context(), func(s board.Snapshot) bool { return s.Rows[0].Unfinished >= 2 })
	}()
	b.NoteJob(job("a"), time.Time{})
	g.Consistently(returned).ShouldNot(Receive())
	b.NoteJob(job("b"), time.Time{})
	g.Eventually(returned).WithTimeout(30 * time.Second).Should(Receive(BeNil()))
}

func TestAwaitEndsWithTheCauseOfItsContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	NewWithT(t).Expect(newBoard().Await(ctx, func(board.Snapshot) bool { return false })).To(MatchError(cause))
}

func newBoard() *board.Board {
	return board.New("emulated", &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       scaledjobv1.ScaledJobSpec{Threshold: 10},
	})
}

func onlyRow(b *board.Board) board.Row {
	snapshot, _ := b.Look()
	return snapshot.Rows[0]
}

// job returns a Job with a condition that is true.
func job(uid types.UID, conditions ...batchv1.JobConditionType) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: uid, Labels: map[string]string{scaledjobv1.LabelScaledJob: name}}}
	for _, condition := range conditions {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue})
	}
	return job
}

func reported(mode scaledjobv1.ScalingMode, ready metav1.ConditionStatus, reason string) *scaledjobv1.ScaledJob {
	return &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: scaledjobv1.ScaledJobStatus{
			Mode:       mode,
			Conditions: []metav1.Condition{{Type: scaledjobv1.ConditionReady, Status: ready, Reason: reason}},
		},
	}
}
