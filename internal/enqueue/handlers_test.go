// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// owned returns a changed Job of the ScaledJob with this name.
func owned(name string, changes ...func(*batchv1.Job)) *batchv1.Job {
	sj := &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: emails.Namespace, Name: name, UID: "uid-1"},
		Spec:       scaledjobv1.ScaledJobSpec{JobTemplate: &batchv1.JobTemplateSpec{}},
	}
	job := jobs.Build(sj, "template", 1, 0)
	for _, change := range changes {
		change(job)
	}
	return job
}

func TestJobHandler(t *testing.T) {
	orphan := owned("emails", func(job *batchv1.Job) { job.OwnerReferences = nil })
	cron := owned("emails", func(job *batchv1.Job) { job.OwnerReferences[0].Kind = "CronJob" })
	keda := owned("emails", func(job *batchv1.Job) { job.OwnerReferences[0].APIVersion = "keda.sh/v1alpha1" })
	type row struct {
		event    any
		want     []string
		patience time.Duration
	}
	bubble.Each(t, map[string]row{
		"created": {event.CreateEvent{Object: owned("emails")}, []string{"emails"}, normalPatience},
		"listed at the start": {
			event.CreateEvent{Object: owned("emails"), IsInInitialList: true}, []string{"emails"}, resyncPatience,
		},
		"updated": {
			event.UpdateEvent{ObjectOld: owned("emails"), ObjectNew: owned("emails")}, []string{"emails"}, normalPatience,
		},
		"handed over": {
			event.UpdateEvent{ObjectOld: owned("emails"), ObjectNew: owned("letters")}, []string{"emails", "letters"}, normalPatience,
		},
		"deleted":                       {event.DeleteEvent{Object: owned("emails")}, []string{"emails"}, normalPatience},
		"without an owner":              {event.CreateEvent{Object: orphan}, nil, 0},
		"of a namesake of another kind": {event.UpdateEvent{ObjectOld: cron, ObjectNew: keda}, nil, 0},
	}, func(t *testing.T, g Gomega, c row) {
		q := newWorkQueue(t, g)
		on := JobHandler(ignoreFinish, freesNothing)
		switch is := c.event.(type) {
		case event.CreateEvent:
			on.Create(t.Context(), is, q)
		case event.UpdateEvent:
			on.Update(t.Context(), is, q)
		case event.DeleteEvent:
			on.Delete(t.Context(), is, q)
		}
		synctest.Wait()

		q.Expect(q.Len()).To(Equal(len(c.want)))
		var got []string
		for range c.want {
			key, patience, _ := q.next()
			got = append(got, key.Name)
			q.Expect(key.Namespace).To(Equal("mail"))
			q.Expect(patience).To(Equal(c.patience))
		}
		q.Expect(got).To(ConsistOf(c.want))
	})
}

func TestJobChanged(t *testing.T) {
	ready := func(n int32) func(*batchv1.Job) { return func(job *batchv1.Job) { job.Status.Ready = &n } }
	condition := func(kind batchv1.JobConditionType) func(*batchv1.Job) {
		return func(job *batchv1.Job) {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue})
		}
	}
	nothing := func(*batchv1.Job) {}
	type row struct {
		before, after func(*batchv1.Job)
		want          bool
	}
	bubble.Each(t, map[string]row{
		"nothing":            {nothing, nothing, false},
		"a Pod started":      {nothing, func(job *batchv1.Job) { job.Status.Active = 1 }, false},
		"a label":            {nothing, func(job *batchv1.Job) { job.Labels["a"] = "b" }, false},
		"got ready":          {nothing, ready(1), true},
		"reported not ready": {nothing, ready(0), false},
		"another Pod ready":  {ready(1), ready(2), false},
		"not ready any more": {ready(1), ready(0), true},
		"succeeded":          {nothing, condition(batchv1.JobComplete), true},
		"failed":             {nothing, condition(batchv1.JobFailed), true},
		"going to succeed":   {nothing, condition(batchv1.JobSuccessCriteriaMet), false},
		"suspended":          {nothing, condition(batchv1.JobSuspended), false},
		"is to be suspended": {nothing, func(job *batchv1.Job) { job.Spec.Suspend = new(true) }, true},
		"resumed":            {func(job *batchv1.Job) { job.Spec.Suspend = new(true) }, func(job *batchv1.Job) { job.Spec.Suspend = new(false) }, true},
		"being deleted":      {nothing, func(job *batchv1.Job) { job.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
		"released":           {nothing, func(job *batchv1.Job) { job.OwnerReferences = nil }, true},
	}, func(_ *testing.T, g Gomega, c row) {
		before, after := owned("emails", c.before), owned("emails", c.after)
		g.Expect(JobChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})).To(Equal(c.want))
		slimBefore, _ := jobs.Slim(before)
		slimAfter, _ := jobs.Slim(after)
		slim := event.UpdateEvent{ObjectOld: slimBefore.(*batchv1.Job), ObjectNew: slimAfter.(*batchv1.Job)}
		g.Expect(JobChanged().Update(slim)).To(Equal(c.want), "stripped for the cache")
	})
}

// ignoreFinish is for tests that do not need finished Jobs.
func ignoreFinish(types.NamespacedName, *batchv1.Job) { /* nothing to do */ }

// freesNothing is for tests in which no ScaledJob waits for a quota.
func freesNothing(string) map[types.NamespacedName]time.Duration { return nil }

// An owned Job that is deleted may make room for other ScaledJobs of its namespace.
func TestADeletedJobWakesThoseThatWaitForAQuota(t *testing.T) {
	g := NewWithT(t)
	letters := types.NamespacedName{Namespace: emails.Namespace, Name: "letters"}
	var freed []string
	on := JobHandler(ignoreFinish, func(namespace string) map[types.NamespacedName]time.Duration {
		freed = append(freed, namespace)
		return map[types.NamespacedName]time.Duration{letters: 0}
	})
	running, complete, foreign := owned("emails"), owned("emails"), owned("emails")
	complete.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	foreign.OwnerReferences = nil
	withQueue(t, func(ctx context.Context, q *workQueue) {
		on.Create(ctx, event.CreateEvent{Object: running}, q)
		on.Update(ctx, event.UpdateEvent{ObjectOld: running, ObjectNew: complete}, q)
		on.Delete(ctx, event.DeleteEvent{Object: foreign}, q)
		g.Expect(freed).To(BeEmpty())
		on.Delete(ctx, event.DeleteEvent{Object: running}, q)
		g.Expect(freed).To(Equal([]string{emails.Namespace}))
	})
}

func TestAJobThatFinishesIsReportedOnce(t *testing.T) {
	g := NewWithT(t)
	var outcomes []bool
	on := JobHandler(func(owner types.NamespacedName, job *batchv1.Job) {
		g.Expect(owner).To(Equal(emails))
		outcomes = append(outcomes, jobs.Succeeded(job))
	}, freesNothing)
	running, complete, failed := owned("emails"), owned("emails"), owned("emails")
	complete.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	failed.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	foreign := complete.DeepCopy()
	foreign.OwnerReferences = nil
	withQueue(t, func(ctx context.Context, q *workQueue) {
		on.Create(ctx, event.CreateEvent{Object: running}, q)
		on.Create(ctx, event.CreateEvent{Object: complete, IsInInitialList: true}, q)
		on.Update(ctx, event.UpdateEvent{ObjectOld: complete, ObjectNew: complete}, q)
		on.Update(ctx, event.UpdateEvent{ObjectOld: running, ObjectNew: foreign}, q)
		on.Delete(ctx, event.DeleteEvent{Object: running}, q)
		g.Expect(outcomes).To(BeEmpty())

		on.Update(ctx, event.UpdateEvent{ObjectOld: running, ObjectNew: complete}, q)
		on.Update(ctx, event.UpdateEvent{ObjectOld: running, ObjectNew: failed}, q)
		on.Create(ctx, event.CreateEvent{Object: complete}, q) // The Job had finished before the cache showed it.
		g.Expect(outcomes).To(Equal([]bool{true, false, true}))
	})
}
