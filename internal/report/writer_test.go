// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/retry"
)

func TestWait(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		condition, more            bool
		written, changedAt, turned time.Time
		want                       time.Duration
	}{
		"numbers, long after the last write":  {written: ago(time.Hour), changedAt: now, want: 0},
		"numbers, a second after":             {written: ago(time.Second), changedAt: now, want: 0},
		"numbers, soon after":                 {written: ago(300 * time.Millisecond), changedAt: now, want: 700 * time.Millisecond},
		"numbers, never written":              {changedAt: now, want: 0},
		"a condition":                         {condition: true, written: ago(time.Millisecond), changedAt: now, want: 0},
		"a condition, as all the time":        {condition: true, changedAt: now, turned: ago(600 * time.Millisecond), want: 400 * time.Millisecond},
		"more to come":                        {more: true, written: ago(time.Hour), changedAt: now, want: time.Second},
		"more to come, for a while":           {more: true, written: ago(time.Hour), changedAt: ago(600 * time.Millisecond), want: 400 * time.Millisecond},
		"more to come, for long enough":       {more: true, written: ago(time.Hour), changedAt: ago(time.Minute), want: 0},
		"a condition, and more to come":       {condition: true, more: true, written: ago(time.Hour), changedAt: now, want: time.Second},
		"numbers, waiting for longer than it": {written: ago(300 * time.Millisecond), changedAt: ago(time.Minute), want: 700 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := &scaledjobv1.ScaledJobStatus{ActiveJobs: 1}
			after := &scaledjobv1.ScaledJobStatus{ActiveJobs: 2}
			if c.condition {
				after.Conditions = []metav1.Condition{{Type: "Ready"}}
			}
			record := &StatusRecord{writtenAt: c.written, changedAt: c.changedAt, changes: rate.NewLimiter(rate.Every(time.Second), 1)}
			record.changes.AllowN(c.turned, 1)
			NewWithT(t).Expect(record.wait(before, after, c.more, now)).To(Equal(c.want))
		})
	}
}

// server is an API server that counts the applied statuses, and its answer to them.
type server struct {
	client.StatusClient
	client.SubResourceWriter
	applied int
	answer  error
}

func (s *server) Status() client.SubResourceWriter { return s }

func (s *server) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	s.applied++
	return s.answer
}

func active(jobs int32) *scaledjobv1.ScaledJobStatus {
	return &scaledjobv1.ScaledJobStatus{ActiveJobs: jobs}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, record, sj := &server{}, NewStatusRecord(), &scaledjobv1.ScaledJob{}
		expect := func(jobs int32, replaced *scaledjobv1.ScaledJobStatus, wait time.Duration) {
			t.Helper()
			gotReplaced, gotWait, err := StatusWriter{api, anyPlace, never}.Write(t.Context(), sj, &record, active(jobs), false)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(gotReplaced).To(Equal(replaced))
			g.Expect(gotWait).To(Equal(wait))
			g.Expect(record.Latest(sj)).To(Equal(active(jobs)), "whether it was written or not")
		}

		expect(0, nil, 0) // It equals the stored status.
		g.Expect(record.Written()).To(BeFalse())
		expect(1, &sj.Status, 0)
		g.Expect(record.Written()).To(BeTrue())
		time.Sleep(300 * time.Millisecond)
		expect(2, nil, 700*time.Millisecond)
		expect(1, nil, 0) // It has changed back to the stored status.
		g.Expect(record.changedAt).To(BeZero(), "the next change is delayed by the full interval")
		time.Sleep(time.Second)
		expect(3, active(1), 0)
		g.Expect(api.applied).To(Equal(2))
	})
}

func TestWriteThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, record, sj := &server{answer: errors.New("no")}, NewStatusRecord(), &scaledjobv1.ScaledJob{}
		write := func() (time.Duration, error) {
			replaced, wait, err := StatusWriter{api, anyPlace, never}.Write(t.Context(), sj, &record, active(1), false)
			g.Expect(replaced).To(BeNil())
			return wait, err
		}

		for failures := 1; failures <= 3; failures++ {
			wait, err := write()
			g.Expect(err).To(MatchError(api.answer))
			g.Expect(wait).To(Equal(retry.APIServer.After(failures)))
			g.Expect(write()).To(Equal(wait), "the write is not retried earlier")
			g.Expect(api.applied).To(Equal(failures))
			time.Sleep(wait)
		}
		g.Expect(record.Written()).To(BeFalse())
	})
}

func TestWriteAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, record, sj := &server{}, NewStatusRecord(), &scaledjobv1.ScaledJob{}
		for jobs := range int32(5) {
			g.Expect(StatusWriter{api, anyPlace, never}.WriteAtOnce(t.Context(), sj, &record, active(jobs+1))).To(BeZero())
			g.Expect(StatusWriter{api, anyPlace, never}.WriteAtOnce(t.Context(), sj, &record, active(jobs+1))).To(BeZero())
		}
		g.Expect(api.applied).To(Equal(5))

		api.answer = errors.New("no")
		wait, err := StatusWriter{api, anyPlace, never}.WriteAtOnce(t.Context(), sj, &record, active(1))
		g.Expect(err).To(MatchError(api.answer))
		g.Expect(wait).To(Equal(retry.APIServer.After(1)))
		g.Expect(StatusWriter{api, anyPlace, never}.WriteAtOnce(t.Context(), sj, &record, active(1))).To(Equal(wait))
		g.Expect(api.applied).To(Equal(6))
	})
}

// A write that fails after a long time is not tried again at once.
func TestSlowWritesThatFailAreSpacedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		slow := &slowServer{}
		record := NewStatusRecord()
		for sent := 1; sent <= 3; sent++ {
			_, wait, err := StatusWriter{slow, anyPlace, never}.Write(t.Context(), &scaledjobv1.ScaledJob{}, &record, active(int32(sent)), false)
			g.Expect(err).To(MatchError(context.DeadlineExceeded))
			g.Expect(wait).To(Equal(retry.APIServer.After(sent)))
			g.Expect(slow.sent).To(Equal(sent))
			time.Sleep(wait)
		}
	})
}

// slowServer is an API server that never answers.
type slowServer struct {
	client.StatusClient
	client.SubResourceWriter

	sent int
}

func (s *slowServer) Status() client.SubResourceWriter { return s }

func (s *slowServer) Apply(ctx context.Context, _ runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	s.sent++
	<-ctx.Done()
	return ctx.Err()
}

// anyPlace is a place for every write.
func anyPlace(bool, time.Time) func() { return func() {} }

// Without a place nothing is written, and the status stays different.
func TestWritesWaitForAPlace(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	record := NewStatusRecord()
	var asked []bool
	none := func(conditions bool, _ time.Time) func() { asked = append(asked, conditions); return nil }
	sj, status := &scaledjobv1.ScaledJob{}, &scaledjobv1.ScaledJobStatus{ActiveJobs: 1}

	replaced, wait, err := StatusWriter{nil, none, never}.Write(t.Context(), sj, &record, status, false)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(replaced).To(BeNil())
	g.Expect(wait).To(BeZero(), "it is called when there is a place")
	status = status.DeepCopy()
	status.Conditions = []metav1.Condition{{Type: scaledjobv1.ConditionReady}}
	_, _, _ = StatusWriter{nil, none, never}.Write(t.Context(), sj, &record, status, false)
	g.Expect(asked).To(Equal([]bool{false, true}), "conditions and numbers have places of their own")
	g.Expect(record.Written()).To(BeFalse())
}

func never() bool { return false }

// While a renewal of the Lease is late, statuses leave the API server to it.
func TestWritesYieldToTheLease(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	record := NewStatusRecord()
	status := &scaledjobv1.ScaledJobStatus{ActiveJobs: 1}
	writer := StatusWriter{nil, anyPlace, func() bool { return true }}

	replaced, wait, err := writer.Write(t.Context(), &scaledjobv1.ScaledJob{}, &record, status, false)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(replaced).To(BeNil())
	g.Expect(wait).To(Equal(leastInterval))
	g.Expect(record.Latest(nil)).To(Equal(status), "the next reconcile goes on from it")
}

// Thousands of statuses are in memory once, and not once each for what is computed, written and cached.
func TestStatusIsKeptOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	record, sj := NewStatusRecord(), &scaledjobv1.ScaledJob{}
	writer := StatusWriter{&server{}, anyPlace, never}
	ready := func() *scaledjobv1.ScaledJobStatus {
		return &scaledjobv1.ScaledJobStatus{ActiveJobs: 3, Conditions: []metav1.Condition{{Type: scaledjobv1.ConditionReady}}}
	}
	replaced, _, err := writer.Write(t.Context(), sj, &record, ready(), false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(replaced).NotTo(BeNil())
	written := record.Latest(sj)
	_, _, err = writer.Write(t.Context(), sj, &record, ready(), false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(record.Latest(sj)).To(BeIdenticalTo(written), "the cache does not show it yet")

	shown := &scaledjobv1.ScaledJob{Status: *ready()}
	_, _, err = writer.Write(t.Context(), shown, &record, ready(), false)
	g.Expect(err).NotTo(HaveOccurred())
	kept := record.Latest(shown)
	g.Expect(kept).To(BeIdenticalTo(record.stored(sj)))
	g.Expect(kept).NotTo(BeIdenticalTo(&shown.Status), "that would keep the whole object")
	g.Expect(&kept.Conditions[0]).To(BeIdenticalTo(&shown.Status.Conditions[0]))
}
