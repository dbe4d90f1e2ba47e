// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// message is one that a simulated worker processes, or fails at.
type message struct {
	bad     bool
	arrived time.Time
}

// job is an unfinished Job of a simulation. It has a message, or is idle.
type job struct {
	ordinal int64
	ends    time.Time
	has     *message
}

// source is how a simulated operator learns of messages.
type source string

const (
	events   source = "Events"
	tracking source = "Tracking"
	polling  source = "Polling"
)

var sources = map[string]source{"Events": events, "Tracking": tracking, "Polling": polling}

// simulation is a queue with its Jobs, over time. Each Job takes a message as it starts, and runs for the same time.
type simulation struct {
	*WithT
	source       source
	policy       Policy
	long         time.Duration
	misspelt     bool // Workers wait at another key.
	keeps        bool // Workers keep what they take in progress until they have succeeded.
	pause        Pause
	now          time.Time
	waiting      []message
	inProgress   int64
	jobs         []job
	newest       int64
	changed      time.Time
	grew, shrank time.Time
	// useless is the number of Jobs that had no message, jobsEver that of all, and waits are how long each good message
	// waited.
	useless, jobsEver int
	waits             []time.Duration
	pausedFor         time.Duration
}

func (s *simulation) push(bad bool, count int) {
	for range count {
		s.waiting = append(s.waiting, message{bad: bad, arrived: s.now})
	}
	s.changed, s.grew = s.now, s.now
}

// run lets time pass in steps of a tenth of a second, and does what is to be done before each second.
func (s *simulation) run(long time.Duration, eachSecond func(second int)) {
	for step := range int(long / (100 * time.Millisecond)) {
		if step%10 == 0 && eachSecond != nil {
			eachSecond(step / 10)
		}
		s.reconcile(s.end())
		s.now = s.now.Add(100 * time.Millisecond)
	}
}

// end ends the Jobs whose time has come.
func (s *simulation) end() (finishes []Finish) {
	s.jobs = slices.DeleteFunc(s.jobs, func(job job) bool {
		if s.now.Before(job.ends) {
			return false
		}
		failed := job.has != nil && job.has.bad
		finishes = append(finishes, Finish{Ordinal: job.ordinal, Failed: failed, At: s.now})
		switch {
		case job.has == nil:
			s.useless++
		case s.keeps && !failed:
			s.inProgress--
		}
		if job.has != nil && !failed {
			s.changed, s.shrank = s.now, s.now
		}
		return true
	})
	return finishes
}

// state returns the queue as the operator observes it.
func (s *simulation) state() QueueState {
	queue := Queue{Waiting: int64(len(s.waiting)), InProgress: s.inProgress}
	state := QueueState{
		Waiting: int64(len(s.waiting)), Depth: queue.Outstanding(), InProgress: InProgress([]Queue{queue}, s.policy), Active: int64(len(s.jobs)), Newest: s.newest, At: s.now,
	}
	for _, job := range s.jobs {
		if slices.Contains(s.pause.Probes(), job.ordinal) {
			state.Probes = append(state.Probes, job.ordinal)
		}
	}
	switch s.source {
	case events:
		state.Reliable, state.GrewAt, state.ShrunkAt = true, s.grew, s.shrank
	case tracking:
		state.Tracked, state.Unchanged = true, s.changed
		if s.changed.IsZero() {
			state.Unchanged = start
		}
	}
	return state
}

func (s *simulation) reconcile(finishes []Finish) {
	s.pause.Saw(s.state())
	s.pause.Finished(finishes, s.now)
	seen := Observation{Queues: []Queue{{Waiting: int64(len(s.waiting)), InProgress: s.inProgress}}, Active: int64(len(s.jobs))}
	due := int64(Decide(seen, s.policy).Create)
	free := int64(Free(seen, s.policy, s.pause.Orphaned(), int64(len(s.pause.Probes()))))
	var created []int64
	for range s.pause.Allowed(due, free, s.now) {
		created = append(created, s.start())
	}
	s.pause.Created(created, due, free, s.now)
	if s.pause.All() {
		s.pausedFor += 100 * time.Millisecond
	}
}

// start starts a Job, which takes a message.
func (s *simulation) start() int64 {
	s.newest++
	s.jobsEver++
	started := job{ordinal: s.newest, ends: s.now.Add(s.long)}
	if len(s.waiting) > 0 && !s.misspelt {
		first := s.waiting[0]
		started.has, s.waiting = &first, s.waiting[1:]
		s.changed = s.now
		if s.keeps {
			s.inProgress++
		} else {
			s.shrank = s.now
		}
		if !first.bad {
			s.waits = append(s.waits, s.now.Sub(first.arrived))
		}
	}
	s.jobs = append(s.jobs, started)
	return s.newest
}

// newSimulation begins a simulation with at least and at most so many Jobs.
func newSimulation(t *testing.T, from source, minimum, maximum int32) *simulation {
	t.Helper()
	return &simulation{
		WithT: NewWithT(t), source: from, policy: between(minimum, maximum), long: 2 * time.Second, now: start, keeps: true,
	}
}

// simulate runs a simulation with each of the sources, in parallel.
func simulate(t *testing.T, minimum, maximum int32, sources map[string]source, test func(s *simulation)) {
	t.Helper()
	bubble.Each(t, sources, func(t *testing.T, _ Gomega, from source) { test(newSimulation(t, from, minimum, maximum)) })
}

// A worker that crashes after it has taken its message loses at most four messages soon after each other, and then two
// a minute.
func TestABrokenImageBurnsFewMessages(t *testing.T) {
	simulate(t, 0, 3, sources, func(s *simulation) {
		s.keeps = false
		s.push(true, 200)
		s.run(time.Hour, nil)
		s.Expect(s.jobsEver).To(BeNumerically("~", 3+4+2*60, 5))
		s.Expect(s.waiting).NotTo(BeEmpty())
	})
}

func TestAGoodMessageAfterBadOnes(t *testing.T) {
	simulate(t, 0, 20, sources, func(s *simulation) {
		s.keeps = false
		s.run(time.Minute, func(second int) {
			if second%5 == 0 && second < 30 {
				s.push(true, 1)
			}
			if second == 35 {
				s.push(false, 1)
			}
		})
		s.Expect(s.waits).To(HaveLen(1))
		s.Expect(s.waits[0]).To(BeNumerically("<=", 30*time.Second))
	})
}

// The same, while one Job runs at a time and all are there from the start.
func TestAGoodMessageBehindBadOnes(t *testing.T) {
	simulate(t, 0, 1, sources, func(s *simulation) {
		s.keeps = false
		s.push(true, 6)
		s.push(false, 1)
		s.run(2*time.Minute, nil)
		s.Expect(s.waits).To(HaveLen(1))
		s.Expect(s.waits[0]).To(BeNumerically("<=", time.Minute))
	})
}

// Messages whose workers are dead get single Jobs, and others get theirs at once.
func TestGoodMessagesAmongOrphans(t *testing.T) {
	simulate(t, 0, 20, sources, func(s *simulation) {
		s.inProgress = 300
		s.run(15*time.Minute, func(second int) {
			if second%60 == 30 {
				s.push(false, 1)
			}
		})
		s.Expect(s.waits).To(HaveLen(15))
		s.Expect(s.useless).To(BeNumerically("<=", 20+20+2*15+5))
		s.Expect(slices.Max(s.waits)).To(BeNumerically("<=", 30*time.Second))
		s.Expect(slices.Max(s.waits[1:])).To(BeNumerically("<=", time.Second))
	})
}

func TestIdleWorkers(t *testing.T) {
	simulate(t, 2, 20, sources, func(s *simulation) {
		s.long = 500 * time.Millisecond
		s.run(5*time.Minute, nil)
		s.Expect(s.useless).To(BeNumerically("<=", 20))
	})
}

// In Polling, messages that come and leave look the same, so that it does not find this out.
func TestAMisspeltKey(t *testing.T) {
	simulate(t, 0, 5, map[string]source{"Events": events, "Tracking": tracking}, func(s *simulation) {
		s.misspelt = true
		s.run(5*time.Minute, func(int) { s.push(false, 1) })
		s.Expect(s.useless).To(BeNumerically("<=", 25))
	})
}

// A queue with healthy workers is never paused, whether it only grows or is filled and drained in turns.
func TestHealthyWorkersAreNeverPaused(t *testing.T) {
	bubble.Each(t, sources, func(t *testing.T, g Gomega, from source) {
		for _, keeps := range []bool{true, false} {
			s := newSimulation(t, from, 0, 20)
			s.keeps = keeps
			s.run(5*time.Minute, func(int) { s.push(false, 1000) })
			g.Expect(s.pausedFor).To(BeZero(), "it only grows")

			s = newSimulation(t, from, 1, 20)
			s.keeps, s.long = keeps, 700*time.Millisecond
			s.run(10*time.Minute, func(second int) {
				if second%60 < 20 {
					s.push(false, 7)
				}
			})
			g.Expect(s.jobsEver).To(BeNumerically(">=", 10*20*7))
			g.Expect(slices.Max(s.waits)).To(BeNumerically("<=", 5*time.Second), "it is filled and drained in turns")
		}
	})
}

// Messages keep coming while the workers fail, and after that the depth never falls. Success still shows.
func TestAQueueThatOnlyGrowsRecovers(t *testing.T) {
	simulate(t, 0, 20, sources, func(s *simulation) {
		s.keeps = false
		for step := range 3000 {
			s.push(step < 600, 4)
			if step == 600 { // The workers are corrected.
				for i := range s.waiting {
					s.waiting[i].bad = false
				}
			}
			s.run(100*time.Millisecond, nil)
		}
		s.Expect(s.pause.Reason()).To(Equal(NotPaused))
		s.Expect(s.jobs).To(HaveLen(20))
	})
}

// One message of a dead worker does not end the pause of workers that take nothing.
func TestAMisspeltKeyWithAnOrphan(t *testing.T) {
	simulate(t, 0, 20, sources, func(s *simulation) {
		s.misspelt, s.inProgress = true, 1
		s.push(false, 50)
		s.run(15*time.Minute, nil)
		s.Expect(s.useless).To(BeNumerically("<=", 20+4+15*2+1))
	})
}

// After a restart the pause goes on, whatever is in progress.
func TestARestartWithMessagesInProgress(t *testing.T) {
	simulate(t, 0, 20, sources, func(s *simulation) {
		s.misspelt, s.inProgress = true, 5
		s.push(false, 50)
		s.run(time.Minute, nil)
		before := s.jobsEver
		s.pause = ResumePause(s.pause.Reason(), s.pause.Until(s.now), s.now)
		s.run(time.Minute, nil)
		s.Expect(s.jobsEver - before).To(BeNumerically("<=", 3))
	})
}

// Healthy Jobs that hold messages, and fewer of them later, are no orphans that leave.
func TestOrphansUnderAChangingLoad(t *testing.T) {
	simulate(t, 0, 40, sources, func(s *simulation) {
		s.inProgress = 30
		s.run(time.Minute, nil)
		s.Expect(s.pause.Reason()).To(Equal(MessagesOrphaned))
		before := s.useless
		s.long = 5 * time.Second
		s.push(false, 9)
		s.run(time.Minute, nil)
		s.Expect(s.useless - before).To(BeNumerically("<=", 5))
		s.Expect(s.pause.Orphaned()).To(Equal(int64(30)))
	})
}

// Messages may share Jobs with orphans. Those that wait still get theirs.
func TestFree(t *testing.T) {
	type row struct {
		queues           []Queue
		calculation      Calculation
		active, orphaned int64
		probes           int64
		want             int32
	}
	bubble.Each(t, map[string]row{
		"no orphans":         {queues: []Queue{{Waiting: 3, InProgress: 4}}, active: 4, want: 3},
		"orphans alone":      {queues: []Queue{{InProgress: 4}}, orphaned: 4, want: 0},
		"and others":         {queues: []Queue{{Waiting: 2, InProgress: 4}}, orphaned: 4, want: 2},
		"a probe is running": {queues: []Queue{{Waiting: 2, InProgress: 4}}, orphaned: 4, active: 1, probes: 1, want: 2},
		"a threshold":        {queues: []Queue{{Waiting: 4, Threshold: 10}, {InProgress: 3, Threshold: 10}}, orphaned: 1, want: 1},
		"the largest counts": {queues: []Queue{{Waiting: 3}, {InProgress: 5}}, calculation: Max, orphaned: 5, want: 3},
	}, func(_ *testing.T, g Gomega, c row) {
		policy := Policy{MaxReplicas: 20, Calculation: c.calculation}
		g.Expect(Free(Observation{Queues: c.queues, Active: c.active}, policy, c.orphaned, c.probes)).To(Equal(c.want))
	})
}
