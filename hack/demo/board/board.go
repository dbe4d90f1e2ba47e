// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package board holds what the demo knows: what its watches and its reads of
// Redis have shown, which scene is played, and what was said. Whoever draws it
// or waits for a fact takes a Snapshot.
package board

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// Snapshot is the board at a moment. Nobody changes it afterwards.
type Snapshot struct {
	// Redis says which Redis is used.
	Redis string
	// Playing is the scene that is played. Its number is 0 before the first.
	Playing Title
	// Rows are the ScaledJobs in their order.
	Rows []Row
	// Log is all that was said, the oldest first.
	Log []Entry
}

// Title is what a scene begins with.
type Title struct {
	Name       string
	Story      string // what will happen, and why it matters
	Number, Of int    // the first scene has number 1
}

// String returns "Scene 1 of 5: burst".
func (t Title) String() string {
	return fmt.Sprintf("Scene %d of %d: %s", t.Number, t.Of, t.Name)
}

// Entry is something that was said.
type Entry struct {
	After time.Duration // from the first entry on
	Kind  Kind
	Text  string
}

// Kind says what an Entry is.
type Kind int

// The kinds of entries.
const (
	Begun  Kind = iota // a scene, by its title
	Told               // the story of the scene that has begun
	Done               // something the demo did
	Seen               // something the operator reports
	Passed             // a check that held
	Failed             // a check that did not
)

// Board is safe for concurrent use.
type Board struct {
	mu      sync.Mutex
	redis   string
	playing Title
	rows    []*row
	log     []Entry
	begin   time.Time
	changed chan struct{} // closed by the next change
}

// New returns a board for the ScaledJobs. The text says which Redis is used.
func New(redis string, scaledJobs ...*scaledjobv1.ScaledJob) *Board {
	b := &Board{redis: redis, changed: make(chan struct{})}
	for _, scaledJob := range scaledJobs {
		b.rows = append(b.rows, newRow(scaledJob))
	}
	return b
}

// Look returns the board as it is, and a channel that the next change closes.
func (b *Board) Look() (Snapshot, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Clipped, so that whoever appends to the log gets a copy.
	snapshot := Snapshot{Redis: b.redis, Playing: b.playing, Log: slices.Clip(b.log)}
	for _, row := range b.rows {
		snapshot.Rows = append(snapshot.Rows, row.snapshot())
	}
	return snapshot, b.changed
}

// Await returns when the condition is true, or with the cause of ctx's end.
func (b *Board) Await(ctx context.Context, condition func(Snapshot) bool) error {
	for {
		snapshot, changed := b.Look()
		if condition(snapshot) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Begin shows the title of a scene, whose tallies begin.
func (b *Board) Begin(title Title) {
	b.change(func() {
		b.playing = title
		for _, row := range b.rows {
			row.InScene = Tally{Peak: len(row.unfinished)}
		}
		b.say(Begun, title.String())
		b.say(Told, title.Story)
	})
}

// Say adds an entry to the log.
func (b *Board) Say(kind Kind, format string, args ...any) {
	b.change(func() { b.say(kind, fmt.Sprintf(format, args...)) })
}

// NotePush tells that messages are about to be pushed to the empty queue of a
// ScaledJob: the next Job of it is the reaction.
func (b *Board) NotePush(name string, messages int, at time.Time) {
	b.changeRow(name, func(r *row) { r.notePush(messages, at) })
}

// NoteDepth adds a sample of the depth of a queue, as the demo itself reads it,
// or Unknown.
func (b *Board) NoteDepth(name string, depth int64) {
	b.changeRow(name, func(r *row) { r.sample(depth) })
}

// NoteScaledJob takes what the operator reports, and says so where more than
// numbers have changed.
func (b *Board) NoteScaledJob(scaledJob *scaledjobv1.ScaledJob) {
	b.changeRow(scaledJob.Name, func(r *row) {
		before := r.ScaledJob
		r.ScaledJob = scaledJob
		if text := turned(before, scaledJob); text != "" {
			b.say(Seen, text)
		}
	})
}

// NoteJob takes a Job as it is at that time.
func (b *Board) NoteJob(job *batchv1.Job, at time.Time) {
	b.changeRow(job.Labels[scaledjobv1.LabelScaledJob], func(r *row) { r.noteJob(job, at) })
}

// NoteDeleted takes a Job that is gone.
func (b *Board) NoteDeleted(job *batchv1.Job) {
	b.changeRow(job.Labels[scaledjobv1.LabelScaledJob], func(r *row) { r.noteDeleted(job.UID) })
}

func (b *Board) changeRow(name string, apply func(*row)) {
	b.change(func() {
		for _, row := range b.rows {
			if row.ScaledJob.Name == name {
				apply(row)
			}
		}
	})
}

// change applies a change and wakes those who wait for one.
func (b *Board) change(apply func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	apply()
	close(b.changed)
	b.changed = make(chan struct{})
}

// say must be called with the lock held.
func (b *Board) say(kind Kind, text string) {
	if len(b.log) == 0 {
		b.begin = time.Now()
	}
	b.log = append(b.log, Entry{After: time.Since(b.begin), Kind: kind, Text: text})
}

// turned tells in words how mode and readiness have changed, if they have.
func turned(before, after *scaledjobv1.ScaledJob) string {
	text := ""
	if mode := after.Status.Mode; mode != "" && mode != before.Status.Mode {
		text = "mode " + string(mode) + because(after, scaledjobv1.ConditionNotificationsActive)
	}
	was := apimeta.FindStatusCondition(before.Status.Conditions, scaledjobv1.ConditionReady)
	is := apimeta.FindStatusCondition(after.Status.Conditions, scaledjobv1.ConditionReady)
	if is != nil && (was == nil || was.Reason != is.Reason) {
		if text != "" {
			text += ", "
		}
		text += "Ready " + string(is.Status) + because(after, scaledjobv1.ConditionReady)
	}
	if text == "" {
		return ""
	}
	return after.Name + ": " + text
}

// because returns the reason of a condition in brackets.
func because(scaledJob *scaledjobv1.ScaledJob, kind string) string {
	condition := apimeta.FindStatusCondition(scaledJob.Status.Conditions, kind)
	if condition == nil {
		return ""
	}
	return " (" + condition.Reason + ")"
}
