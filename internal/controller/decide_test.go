// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/internal/scaling"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

var unreachable = &failure.Error{Reason: failure.ReasonUnreachable, Message: "Start it.", Err: errors.New("refused")}

// activeJobs returns count unfinished Jobs.
func activeJobs(n int) jobs.Owned {
	var owned jobs.Owned
	for i := range n {
		name := fmt.Sprint("job-", i)
		owned.Active = append(owned.Active, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
	}
	return owned
}

// waiting returns the content of the queue: messages that wait.
func waiting(messages int64) queues { return queues{counts: queue.Counts{{Waiting: messages}}} }

// unreadable is the queue after a failed read.
var unreadable = queues{counts: waiting(47).counts, err: unreachable}

func TestDecide(t *testing.T) {
	one := []jobcontrol.Unanswered{{Ordinal: 7, Since: time.Unix(1, 0)}}
	two := []jobcontrol.Unanswered{one[0], {Ordinal: 8, Since: time.Unix(1, 0)}}
	suspended := func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = true }
	limits := func(minimum int32, maximum *int32) func(*scaledjobv1.ScaledJobSpec) {
		return func(spec *scaledjobv1.ScaledJobSpec) { spec.MinReplicas, spec.MaxReplicas = minimum, maximum }
	}
	pending := func(maximum int32) func(*scaledjobv1.ScaledJobSpec) {
		return func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxPendingReplicas = &maximum }
	}
	type row struct {
		spec func(*scaledjobv1.ScaledJobSpec)
		seen observation
		want plan
	}
	bubble.Each(t, map[string]row{
		"nothing due":       {seen: observation{}, want: plan{known: true}},
		"some due":          {seen: observation{queues: waiting(47), jobs: activeJobs(2)}, want: plan{known: true, desired: 5, create: 3}},
		"all there":         {seen: observation{queues: waiting(47), jobs: activeJobs(5)}, want: plan{known: true, desired: 5}},
		"more than due":     {seen: observation{queues: waiting(47), jobs: activeJobs(9)}, want: plan{known: true, desired: 5}},
		"at the maximum":    {seen: observation{queues: waiting(200), jobs: activeJobs(20)}, want: plan{known: true, desired: 20}},
		"above the maximum": {seen: observation{queues: waiting(201)}, want: plan{known: true, desired: 20, create: 20, atMax: true}},
		"unknown depth":     {seen: observation{queues: unreadable}, want: plan{}},
		"unknown depth, and creates in doubt": {
			seen: observation{queues: unreadable, unanswered: one}, want: plan{},
		},
		"suspended": {
			spec: suspended, seen: observation{queues: waiting(47), jobs: activeJobs(1)}, want: plan{known: true, desired: 5},
		},
		"suspended, and creates in doubt": {
			spec: suspended, seen: observation{queues: waiting(47), unanswered: one}, want: plan{known: true, desired: 5},
		},
		"in doubt and due": {
			seen: observation{queues: waiting(47), jobs: activeJobs(1), unanswered: two},
			want: plan{known: true, desired: 5, resend: two, create: 2},
		},
		"in doubt, and just due": {
			seen: observation{queues: waiting(47), jobs: activeJobs(4), unanswered: one}, want: plan{known: true, desired: 5, resend: one},
		},
		"in doubt, and too many if it exists": {
			seen: observation{queues: waiting(47), jobs: activeJobs(4), unanswered: two}, want: plan{known: true, desired: 5},
		},
		"in doubt, and nothing due": {seen: observation{unanswered: one}, want: plan{known: true}},
		"minimum without a message": {spec: limits(2, new(int32(5))), want: plan{known: true, desired: 2, create: 2}},
		"maximum unset is 100":      {spec: limits(0, nil), seen: observation{queues: waiting(5000)}, want: plan{known: true, desired: 100, create: 100, atMax: true}},
		"maximum 0 is none":         {spec: limits(2, new(int32(0))), seen: observation{queues: waiting(5)}, want: plan{known: true, atMax: true}},
		"as many pending as allowed": {
			spec: pending(2), seen: observation{queues: waiting(47), jobs: activeJobs(2)}, want: plan{known: true, desired: 5, atMaxPending: true},
		},
		"more pending than allowed": {
			spec: pending(1), seen: observation{queues: waiting(47), jobs: activeJobs(2)}, want: plan{known: true, desired: 5, atMaxPending: true},
		},
		"some may start": {
			spec: pending(4), seen: observation{queues: waiting(47), jobs: activeJobs(2)},
			want: plan{known: true, desired: 5, create: 2, atMaxPending: true},
		},
		"just enough may start": {
			spec: pending(5), seen: observation{queues: waiting(47), jobs: activeJobs(2)}, want: plan{known: true, desired: 5, create: 3},
		},
		"a create in doubt may be pending": {
			spec: pending(3), seen: observation{queues: waiting(47), jobs: activeJobs(1), unanswered: two},
			want: plan{known: true, desired: 5, resend: two, atMaxPending: true},
		},
		"below activation threshold": {
			spec: func(spec *scaledjobv1.ScaledJobSpec) { spec.ActivationThreshold = 47 },
			seen: observation{queues: waiting(47)}, want: plan{known: true},
		},
	}, func(_ *testing.T, g Gomega, c row) {
		sj := scaledJob()
		if c.spec != nil {
			c.spec(&sj.Spec)
		}
		spec := scaledjob.Resolve(sj)
		g, pause, now := g, &scaling.Pause{}, time.Now()
		c.want.mayCreate = c.want.known && !sj.Spec.Suspend
		c.want.reacts = c.want.mayCreate
		c.want.due = int64(len(c.want.resend) + c.want.create)
		if c.want.atMaxPending {
			c.want.due = int64(c.want.desired) - int64(len(c.seen.jobs.Active))
		}
		c.want.free = c.want.due
		is := decide(&spec, c.seen, sj.Spec.Suspend, pause, now)
		if sj.Spec.Suspend {
			c.want.held, c.want.due, c.want.free = is.held, is.due, is.free
		}
		g.Expect(is).To(Equal(c.want))

		held := plan{known: c.want.known, desired: c.want.desired, atMax: c.want.atMax, due: is.due, free: is.free}
		is = decide(&spec, c.seen, true, pause, now)
		held.held = is.held
		g.Expect(is).To(Equal(held), "while creating pauses")
		g.Expect(is.held || sj.Spec.Suspend).To(Equal(c.want.due > 0 || sj.Spec.Suspend))
	})
}

func TestIsIdle(t *testing.T) {
	one := []jobcontrol.Unanswered{{Ordinal: 7}}
	type row struct {
		suspend bool
		pausing bool
		seen    observation
		done    created
		want    bool
	}
	bubble.Each(t, map[string]row{
		"room":                          {seen: observation{jobs: activeJobs(19)}, want: true},
		"no room":                       {seen: observation{jobs: activeJobs(20)}},
		"room was filled":               {seen: observation{jobs: activeJobs(18)}, done: created{jobs: 2}},
		"room, if a create made no Job": {seen: observation{jobs: activeJobs(19), unanswered: one}},
		"suspended":                     {suspend: true},
		"unknown depth":                 {seen: observation{queues: unreadable}},
		"pausing":                       {pausing: true},
		"creates fail":                  {done: created{err: errAway}},
		"creates are refused":           {done: created{refusal: errForbidden}},
	}, func(_ *testing.T, g Gomega, c row) {
		spec := scaledjob.Resolve(scaledJob())
		plan := decide(&spec, c.seen, c.suspend || c.pausing, &scaling.Pause{}, time.Now())
		g.Expect(isIdle(&spec, c.seen, plan, c.done)).To(Equal(!c.want))
	})
}

// During a pause one Job is created, whether its create is sent for the first time or again.
func TestDecideDuringAPause(t *testing.T) {
	t.Parallel()
	g, now := NewWithT(t), time.Now()
	spec := scaledjob.Resolve(scaledJob())
	pause := scaling.ResumePause(scaling.JobsFailing, now.Add(10*time.Second), now)
	lost := []jobcontrol.Unanswered{{Ordinal: 7}, {Ordinal: 8}}

	is := decide(&spec, observation{queues: waiting(47), unanswered: lost}, false, &pause, now)
	g.Expect(is).To(Equal(plan{known: true, desired: 5, due: 5, free: 5, held: true, resend: lost[:0]}))
	is = decide(&spec, observation{queues: waiting(47), unanswered: lost}, false, &pause, now.Add(10*time.Second))
	g.Expect(is).To(Equal(plan{known: true, desired: 5, due: 5, free: 5, reacts: true, resend: lost[:1]}))
	is = decide(&spec, observation{queues: waiting(47)}, false, &pause, now.Add(10*time.Second))
	g.Expect(is).To(Equal(plan{known: true, desired: 5, due: 5, free: 5, reacts: true, create: 1}))
}
