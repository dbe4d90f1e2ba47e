// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package board has the current state of the demo: the objects that it watches, the depths that it reads, the current
// scene, and the log. The views and the scenes read it as a [Snapshot].
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

// Snapshot is the board at one moment. It does not change afterwards.
type Snapshot struct {
	// Redis describes the Redis in use.
	Redis string
	// Playing is the current scene. Its number is 0 before the first one.
	Playing Title
	// Rows are the ScaledJobs, in order.
	Rows []Row
	// Log has all entries, the oldest first.
	Log []Entry
}

// Title is the title of a scene.
type Title struct {
	Name       string
	Story      string // what happens, and why that matters
	Number, Of int    // the first scene has number 1
}

// String returns a text such as "Scene 1 of 5: burst".
func (t Title) String() string {
	return fmt.Sprintf("Scene %d of %d: %s", t.Number, t.Of, t.Name)
}

// Entry is an entry of the log.
type Entry struct {
	After time.Duration // since the first entry
	Kind  Kind
	Text  string
}

// Kind is the kind of an [Entry].
type Kind int

// The kinds of entries.
const (
	Begun  Kind = iota // the title of a scene
	Told               // the story of the scene
	Done               // an action of the demo
	Seen               // a report of the operator
	Passed             // a check that passed
	Failed             // a check that failed
)

// Board is the board. It is safe for concurrent use.
type Board struct {
	mu      sync.Mutex
	redis   string
	playing Title
	rows    []*row
	log     []Entry
	begin   time.Time
	changed chan struct{} // closed by the next change
}

// New returns a board for these ScaledJobs. redis describes the Redis in use.
func New(redis string, scaledJobs ...*scaledjobv1.ScaledJob) *Board {
	b := &Board{redis: redis, changed: make(chan struct{})}
	for _, scaledJob := range scaledJobs {
		b.rows = append(b.rows, newRow(scaledJob))
	}
	return b
}

// Look returns the board, and a channel that is closed at the next change.
func (b *Board) Look() (Snapshot, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Clipped, so that appending to the log copies it.
	snapshot := Snapshot{Redis: b.redis, Playing: b.playing, Log: slices.Clip(b.log)}
	for _, row := range b.rows {
		snapshot.Rows = append(snapshot.Rows, row.snapshot())
	}
	return snapshot, b.changed
}

// Await returns nil once the condition is true, or the cause of ctx when ctx ends.
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

// Begin begins a scene and resets the tallies.
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

// NotePush records that messages are about to be pushed to the empty queue of a ScaledJob. The time until its next Job
// is the reaction time.
func (b *Board) NotePush(name string, messages int, at time.Time) {
	b.changeRow(name, func(r *row) { r.notePush(messages, at) })
}

// NoteDepth adds a sample of the depth of a queue, as the demo has read it, or [Unknown].
func (b *Board) NoteDepth(name string, depth int64) {
	b.changeRow(name, func(r *row) { r.sample(depth) })
}

// NoteScaledJob records the state of a ScaledJob, and logs changes of its mode and its readiness.
func (b *Board) NoteScaledJob(scaledJob *scaledjobv1.ScaledJob) {
	b.changeRow(scaledJob.Name, func(r *row) {
		before := r.ScaledJob
		r.ScaledJob = scaledJob
		if text := turned(before, scaledJob); text != "" {
			b.say(Seen, text)
		}
	})
}

// NoteJob records the state of a Job at a time.
func (b *Board) NoteJob(job *batchv1.Job, at time.Time) {
	b.changeRow(job.Labels[scaledjobv1.LabelScaledJob], func(r *row) { r.noteJob(job, at) })
}

// NoteDeleted records that a Job was deleted.
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

// change applies a change and closes the channel of [Board.Look].
func (b *Board) change(apply func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	apply()
	close(b.changed)
	b.changed = make(chan struct{})
}

// say adds an entry. The lock must be held.
func (b *Board) say(kind Kind, text string) {
	if len(b.log) == 0 {
		b.begin = time.Now()
	}
	b.log = append(b.log, Entry{After: time.Since(b.begin), Kind: kind, Text: text})
}

// turned returns a text about a change of the mode or the readiness, or "".
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
