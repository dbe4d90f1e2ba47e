// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/retry"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestWait(t *testing.T) {
	now := time.Unix(1000, 0)
	in := now.Add
	type row struct {
		urgent, more bool
		due, turned  time.Time
		want         time.Duration
	}
	bubble.Each(t, map[string]row{
		"numbers":                       {due: in(time.Second), want: time.Second},
		"numbers that have waited":      {due: in(0), want: 0},
		"numbers, long overdue":         {due: in(-time.Hour), want: 0},
		"a condition":                   {urgent: true, due: in(time.Second), want: 0},
		"a condition, as all the time":  {urgent: true, due: in(time.Second), turned: in(-600 * time.Millisecond), want: time.Second},
		"a condition, and more to come": {urgent: true, more: true, due: in(time.Second), want: time.Second},
		"more to come, for long enough": {urgent: true, more: true, due: in(-time.Minute), want: 0},
	}, func(_ *testing.T, g Gomega, c row) {
		record := &StatusRecord{due: c.due, changes: rate.NewLimiter(rate.Every(time.Second), 1)}
		record.changes.AllowN(c.turned, 1)
		g.Expect(record.wait(c.urgent, c.more, now)).To(Equal(c.want))
	})
}

// server is an API server that counts the applied statuses, and its answer to them. While it hangs, it does not answer.
type server struct {
	client.StatusClient
	client.SubResourceWriter
	applied int
	answer  error
	hangs   bool
}

func (s *server) Status() client.SubResourceWriter { return s }

func (s *server) Apply(ctx context.Context, _ runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	s.applied++
	if s.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.answer
}

func active(jobs int32) *scaledjobv1.ScaledJobStatus {
	return &scaledjobv1.ScaledJobStatus{ActiveJobs: jobs}
}

func TestWrite(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		api, record, sj := &server{}, NewStatusRecord(), &scaledjobv1.ScaledJob{}
		expect := func(jobs int32, replaced *scaledjobv1.ScaledJobStatus, wait time.Duration) {
			t.Helper()
			gotReplaced, gotWait, err := (&StatusWriter{Client: api}).Write(t.Context(), sj, &record, active(jobs), false)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(gotReplaced).To(Equal(replaced))
			g.Expect(gotWait).To(BeNumerically("~", wait, latest-earliest))
			g.Expect(gotWait > 0).To(Equal(wait > 0))
			g.Expect(record.Latest(sj)).To(Equal(active(jobs)), "whether it was written or not")
		}

		expect(0, nil, 0) // It equals the stored status.
		g.Expect(record.Written()).To(BeFalse())
		expect(1, nil, delay())
		expect(0, nil, 0) // It has changed back to the stored status.
		expect(1, nil, time.Until(record.due))
		expect(0, nil, 0)
		time.Sleep(latest + time.Nanosecond)
		expect(2, nil, delay())
		time.Sleep(300 * time.Millisecond)
		expect(3, nil, time.Until(record.due))
		time.Sleep(latest)
		expect(4, &sj.Status, 0)
		g.Expect(record.Written()).To(BeTrue())
		g.Expect(api.applied).To(Equal(1))
	})
}

func TestWriteThatFails(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		api, record, sj := &server{answer: errors.New("no")}, NewStatusRecord(), &scaledjobv1.ScaledJob{}
		write := func() (time.Duration, error) {
			replaced, wait, err := (&StatusWriter{Client: api}).Write(t.Context(), sj, &record, active(1), false)
			g.Expect(replaced).To(BeNil())
			return wait, err
		}

		_, _ = write()
		time.Sleep(latest)
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
	bubble.Run(t, func(t *testing.T, g Gomega) {
		api, record, sj := &server{}, NewStatusRecord(), &scaledjobv1.ScaledJob{}
		for jobs := range int32(5) {
			g.Expect((&StatusWriter{Client: api}).WriteAtOnce(t.Context(), sj, &record, active(jobs+1))).To(BeZero())
			g.Expect((&StatusWriter{Client: api}).WriteAtOnce(t.Context(), sj, &record, active(jobs+1))).To(BeZero())
		}
		g.Expect(api.applied).To(Equal(5))

		api.answer = errors.New("no")
		wait, err := (&StatusWriter{Client: api}).WriteAtOnce(t.Context(), sj, &record, active(1))
		g.Expect(err).To(MatchError(api.answer))
		g.Expect(wait).To(Equal(retry.APIServer.After(1)))
		g.Expect((&StatusWriter{Client: api}).WriteAtOnce(t.Context(), sj, &record, active(1))).To(Equal(wait))
		g.Expect(api.applied).To(Equal(6))
	})
}

// A write that fails after a long time is not tried again at once.
func TestSlowWritesThatFailAreSpacedOut(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		slow := &server{hangs: true}
		record := NewStatusRecord()
		record.due, record.waits = time.Now(), true
		for sent := 1; sent <= 3; sent++ {
			_, wait, err := (&StatusWriter{Client: slow}).Write(t.Context(), &scaledjobv1.ScaledJob{}, &record, active(int32(sent)), false)
			g.Expect(err).To(MatchError(context.DeadlineExceeded))
			g.Expect(wait).To(Equal(retry.APIServer.After(sent)))
			g.Expect(slow.applied).To(Equal(sent))
			time.Sleep(wait)
		}
	})
}

// Thousands of statuses are in memory once, and not once each for what is computed, written and cached.
func TestStatusIsKeptOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	record, sj := NewStatusRecord(), &scaledjobv1.ScaledJob{}
	writer := &StatusWriter{Client: &server{}}
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
