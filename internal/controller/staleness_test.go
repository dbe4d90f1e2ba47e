// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// ledger is the history of the Jobs of one ScaledJob, in the order in which caches show it. Each Job is for one
// message.
type ledger struct {
	changes []change
	// own is the version at which the last create of the operator was recorded.
	own int
	// pushed is the number of messages, finished the number of Jobs that took their message, and deleted the number of
	// Jobs that did not.
	pushed, finished, deleted int
}

// change is the creation or the removal of a Job.
type change struct {
	job   int
	there bool
}

// active returns the Jobs that a cache at this version shows.
func (l *ledger) active(version int) map[int]bool {
	active := map[int]bool{}
	for _, c := range l.changes[:version] {
		if c.there {
			active[c.job] = true
		} else {
			delete(active, c.job)
		}
	}
	return active
}

// end ends a random Job, if there is one.
func (l *ledger) end(t *rapid.T) (ended bool) {
	for _, job := range slices.Sorted(maps.Keys(l.active(len(l.changes)))) {
		if rapid.Bool().Draw(t, "this one") {
			l.changes = append(l.changes, change{job: job})
			return true
		}
	}
	return false
}

// plan decides with a cache at any version from oldest on and with the current depth, and creates the Jobs of the plan.
func (l *ledger) plan(t *rapid.T, oldest int, limit int32) {
	version := rapid.IntRange(oldest, len(l.changes)).Draw(t, "version")
	seen := observation{queues: waiting(int64(l.pushed - l.finished))}
	for job := range l.active(version) {
		seen.jobs.Active = append(seen.jobs.Active, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(job))}})
	}
	sj := scaledJob()
	sj.Spec.Threshold, sj.Spec.MaxReplicas = 1, &limit
	spec := scaledjob.Resolve(sj)
	for range decide(&spec, seen, false, &scaling.Pause{}, time.Now()).create {
		l.changes = append(l.changes, change{job: len(l.changes), there: true})
		l.own = len(l.changes)
	}
}

// created returns the number of Jobs ever created.
func (l *ledger) created() (jobs int) {
	for _, c := range l.changes {
		if c.there {
			jobs++
		}
	}
	return jobs
}

// fault describes a violated invariant; empty if there is none.
func (l *ledger) fault(limit int32) string {
	switch {
	case len(l.active(len(l.changes))) > int(limit):
		return fmt.Sprintf("%d active, limit %d", len(l.active(len(l.changes))), limit)
	case l.created() > l.pushed+l.deleted:
		return fmt.Sprintf("%d created for %d messages and %d Jobs that went without", l.created(), l.pushed, l.deleted)
	}
	return ""
}

// play adds messages, ends Jobs and makes plans in random order. Plans use any version from oldest on.
func (l *ledger) play(t *rapid.T, limit int32, oldest func() int) (fault string) {
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		switch rapid.IntRange(0, 3).Draw(t, "step") {
		case 0:
			l.pushed += rapid.IntRange(0, 5).Draw(t, "messages")
		case 1:
			if l.end(t) {
				l.finished++
			}
		case 2:
			if l.end(t) {
				l.deleted++
			}
		case 3:
			l.plan(t, oldest(), limit)
		}
		if fault := l.fault(limit); fault != "" {
			return fault
		}
	}
	return ""
}

// However old the cache of a plan is, as long as it shows all Jobs that the operator created, there are never more Jobs
// than messages, and never more than maxReplicas active Jobs.
func TestPlansByStaleViewsCreateNoMoreThanIsWanted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &ledger{}
		limit := rapid.Int32Range(0, 8).Draw(t, "limit")
		if fault := l.play(t, limit, func() int { return l.own }); fault != "" {
			t.Fatal(fault)
		}
	})
}

// The negative control: plans with caches that do not show all created Jobs create too many. So the test above can
// detect the error.
func TestPlansThatMissTheirOwnJobsCreateTooMany(t *testing.T) {
	t.Parallel()
	found := false
	rapid.Check(t, func(t *rapid.T) {
		l := &ledger{}
		found = l.play(t, 8, func() int { return 0 }) != "" || found
	})
	NewWithT(t).Expect(found).To(BeTrue())
}
