// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// withReady returns a Job with this number of ready Pods.
func withReady(name string, ready int32) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}, Status: batchv1.JobStatus{Ready: &ready}}
}

// at is a moment of a test.
func at(second int) time.Time { return time.Unix(1000, 0).Add(time.Duration(second) * time.Second) }

func TestClaimed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const grace = 10 * time.Second
	var r Readiness
	expect := func(claimed int, next time.Time, second int, active ...*batchv1.Job) {
		t.Helper()
		r.Observe(active, at(second))
		gotClaimed, gotNext := r.Claimed(grace, at(second))
		g.Expect(gotClaimed).To(Equal(claimed), "at %d s", second)
		g.Expect(gotNext).To(Equal(next), "at %d s", second)
	}
	never := time.Time{}
	unknown := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "c"}}

	expect(0, never, 0, withReady("a", 0), withReady("b", 0), unknown)
	expect(0, at(11), 1, withReady("a", 1), withReady("b", 0), unknown)
	expect(0, at(11), 10, withReady("a", 1), withReady("b", 2), unknown)
	expect(1, at(20), 11, withReady("a", 1), withReady("b", 2), unknown)
	expect(2, never, 20, withReady("a", 1), withReady("b", 2), unknown)
	expect(1, never, 21, withReady("a", 0), withReady("b", 2))
	expect(1, at(32), 22, withReady("a", 1), withReady("b", 2))
	expect(0, at(32), 23, withReady("a", 1))
	g.Expect(r).To(HaveLen(1), "finished Jobs are removed")
	r.Observe([]*batchv1.Job{withReady("new", 1)}, at(24))
	claimed, _ := r.Claimed(0, at(24))
	g.Expect(claimed).To(Equal(1), "no grace")
}

// A Job that is suspended again has lost its Pod, which may have put its message back. It must not count as claimed
// from then on, whenever its status shows that: the message would get another Job, and this one takes a message when it
// resumes.
func TestASuspendedJobHasClaimedNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var r Readiness
	job := withReady("a", 1)
	claimed := func(second int) int {
		r.Observe([]*batchv1.Job{job}, at(second))
		n, _ := r.Claimed(10*time.Second, at(second))
		return n
	}
	claimed(0)
	g.Expect(claimed(10)).To(Equal(1))
	job.Spec.Suspend = new(true)
	g.Expect(claimed(11)).To(BeZero(), "the status still shows a ready Pod")
	g.Expect(r.NeverReady(job)).To(BeFalse())
	job.Status.Ready = new(int32(0))
	g.Expect(claimed(30)).To(BeZero())
	job.Spec.Suspend, job.Status.Ready = nil, new(int32(1))
	g.Expect(claimed(40)).To(BeZero(), "its new Pod has just become ready")
	g.Expect(claimed(50)).To(Equal(1))
}

func TestReadinessRecordsWhatWasObserved(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var r Readiness
	r.Created("made", at(1))
	g.Expect(r).To(HaveKeyWithValue(types.UID("made"), Observed{Since: at(1), FromStart: true}))

	r.Observe([]*batchv1.Job{withReady("made", 0), withReady("found", 1)}, at(2))
	r.Observe([]*batchv1.Job{withReady("made", 0), withReady("found", 1)}, at(3))
	g.Expect(r).To(Equal(Readiness{
		"made": {Since: at(1), FromStart: true}, "found": {Ready: true, Since: at(2), EverReady: true},
	}), "since the first observation of the same")

	r.Observe([]*batchv1.Job{withReady("made", 1), withReady("found", 0)}, at(4))
	r.Observe([]*batchv1.Job{withReady("made", 0)}, at(5))
	g.Expect(r).To(Equal(Readiness{"made": {Since: at(5), EverReady: true, FromStart: true}}))

	r.Created("lost", at(6))
	another := withReady("another", 0)
	another.CreationTimestamp = metav1.NewTime(at(3))
	r.Observe([]*batchv1.Job{another}, at(7))
	g.Expect(r).To(Equal(Readiness{"another": {Since: at(3)}}), "as many, and not the same")

	another = withReady("retried", 0)
	another.CreationTimestamp, another.Status.Failed = metav1.NewTime(at(3)), 1
	r.Observe([]*batchv1.Job{another}, at(8))
	g.Expect(r).To(Equal(Readiness{"retried": {Since: at(8)}}), "a Pod that has ended may have been ready")
}

func TestNeverReady(t *testing.T) {
	pods := func(status batchv1.JobStatus) change { return func(job *batchv1.Job) { job.Status = status } }
	one := pods(batchv1.JobStatus{Active: 1, Ready: new(int32(0))})
	notStarted, ready := Observed{FromStart: true}, Observed{Ready: true, EverReady: true, FromStart: true}
	uncounted := func(succeeded, failed []types.UID) change {
		return pods(batchv1.JobStatus{UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Succeeded: succeeded, Failed: failed}})
	}
	type row struct {
		job  *batchv1.Job
		seen *Observed
		want bool
	}
	bubble.Each(t, map[string]row{
		"with a Pod, seen from its start":         {job("j", one), &notStarted, true},
		"with a Pod, of an earlier process":       {job("j", one), &Observed{}, false},
		"with a Pod, never seen":                  {job("j", one), nil, false},
		"was ready":                               {job("j", one), &Observed{EverReady: true, FromStart: true}, false},
		"was ready, and has no Pod now":           {job("j"), &Observed{EverReady: true}, false},
		"ready":                                   {job("j", pods(batchv1.JobStatus{Active: 1, Ready: new(int32(1))})), &ready, false},
		"ready since the last look":               {job("j", pods(batchv1.JobStatus{Active: 1, Ready: new(int32(1))})), &notStarted, false},
		"without a Pod, never seen":               {job("j"), nil, true},
		"suspended, without a Pod":                {job("j", func(j *batchv1.Job) { j.Spec.Suspend = new(true) }), nil, true},
		"suspended, with a Pod":                   {job("j", func(j *batchv1.Job) { j.Spec.Suspend = new(true) }, one), nil, false},
		"its Pod is being deleted":                {job("j", pods(batchv1.JobStatus{Terminating: new(int32(1))})), nil, false},
		"an unready Pod is being deleted":         {job("j", pods(batchv1.JobStatus{Terminating: new(int32(1))})), &notStarted, true},
		"no Pod is being deleted":                 {job("j", pods(batchv1.JobStatus{Terminating: new(int32(0))})), nil, true},
		"a Pod has succeeded":                     {job("j", pods(batchv1.JobStatus{Succeeded: 1})), &notStarted, false},
		"a Pod has failed":                        {job("j", pods(batchv1.JobStatus{Failed: 1})), &notStarted, false},
		"a Pod has failed, another is on its way": {job("j", pods(batchv1.JobStatus{Failed: 1, Active: 1})), &notStarted, false},
		"a Pod has succeeded, not counted yet":    {job("j", uncounted([]types.UID{"pod"}, nil)), nil, false},
		"a Pod has failed, not counted yet":       {job("j", uncounted(nil, []types.UID{"pod"})), nil, false},
		"all Pods are counted":                    {job("j", uncounted(nil, nil)), nil, true},
	}, func(_ *testing.T, g Gomega, c row) {
		r := Readiness{}
		if c.seen != nil {
			r["j"] = *c.seen
		}
		g.Expect(r.NeverReady(c.job)).To(Equal(c.want))
		slimmed, err := Slim(c.job)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(r.NeverReady(slimmed.(*batchv1.Job))).To(Equal(c.want), "as the cache has it")
		list := []*batchv1.Job{c.job, job("other", one)}
		g.Expect(len(r.Unstarted(list)) == 1).To(Equal(c.want))
		g.Expect(list).To(HaveEach(Not(BeNil())), "the list stays as it is")
	})
}
