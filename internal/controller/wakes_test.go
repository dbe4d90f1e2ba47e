// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

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
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/wakeup"
)

// workQueue is a queue as the controller has it.
type workQueue struct {
	Gomega
	priorityqueue.PriorityQueue[reconcile.Request]
}

// withQueue runs a test with a work queue, in time that passes only while all wait.
func withQueue(t *testing.T, test func(context.Context, *workQueue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff)
		queue := priorityqueue.New("", func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter })
		defer queue.ShutDown()
		test(t.Context(), &workQueue{NewWithT(t), queue})
	})
}

// next is the request that is handed out next, with its priority, and how long that took.
func (q *workQueue) next() (key types.NamespacedName, priority int, waited time.Duration) {
	start := time.Now()
	request, priority, _ := q.GetWithPriority()
	return request.NamespacedName, priority, time.Since(start)
}

// fail has the request retried as the controller does after an error.
func (q *workQueue) fail(key types.NamespacedName) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, Priority: new(priorityNormal)}, requestOf(key))
	q.Done(requestOf(key))
}

// succeed has the next pass come after the interval, as the controller does after a pass without an error.
func (q *workQueue) succeed(key types.NamespacedName, interval time.Duration) {
	q.Forget(requestOf(key))
	q.AddWithOpts(priorityqueue.AddOpts{After: interval, Priority: new(priorityResync)}, requestOf(key))
	q.Done(requestOf(key))
}

// failTimes makes so many passes over the ScaledJob fail in a row, and leaves the next retry pending.
func (q *workQueue) failTimes(key types.NamespacedName, failures int) {
	enqueue(q, key, priorityNormal)
	for range failures {
		q.next()
		q.fail(key)
	}
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(retryDelay(0)).To(BeZero())

	// An event must wait for as long as the retry does.
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](minBackoff, maxBackoff)
	for failures := 1; failures <= 100; failures++ {
		g.Expect(retryDelay(failures)).To(Equal(limiter.When("item")), "after %d failures", failures)
	}
	g.Expect(retryDelay(1)).To(Equal(50 * time.Millisecond))
	g.Expect(retryDelay(100)).To(Equal(30 * time.Second))
}

func TestEnqueueAtOnce(t *testing.T) {
	t.Parallel()
	withQueue(t, func(_ context.Context, q *workQueue) {
		enqueue(q, emails, priorityGrowth)

		key, priority, waited := q.next()
		q.Expect(key).To(Equal(emails))
		q.Expect(priority).To(Equal(priorityGrowth))
		q.Expect(waited).To(BeZero())
	})
}

// An event takes the place of a pending resync.
func TestEnqueueBeforeTheResync(t *testing.T) {
	t.Parallel()
	withQueue(t, func(_ context.Context, q *workQueue) {
		enqueue(q, emails, priorityNormal)
		q.next()
		q.succeed(emails, 30*time.Second)
		time.Sleep(5 * time.Second)

		enqueue(q, emails, priorityGrowth)

		_, priority, waited := q.next()
		q.Expect(priority).To(Equal(priorityGrowth))
		q.Expect(waited).To(BeZero())
		q.succeed(emails, 30*time.Second)
		_, priority, waited = q.next()
		q.Expect(priority).To(Equal(priorityResync), "the next resync is as unimportant as any")
		q.Expect(waited).To(Equal(30*time.Second), "and the former one is gone")
	})
}

func TestEnqueueDuringBackoff(t *testing.T) {
	t.Parallel()
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.failTimes(emails, 5)
		retry := retryDelay(5)
		time.Sleep(retry / 4)

		for range 100 {
			enqueue(q, emails, priorityGrowth)
		}

		_, _, waited := q.next()
		q.Expect(waited).To(Equal(retry-retry/4), "it comes with the retry, not before")
		q.Done(requestOf(emails))
		synctest.Wait()
		q.Expect(q.Len()).To(BeZero(), "and only once")
	})
}

// An event that comes while a pass is failing neither follows it at once, nor is it lost.
func TestEnqueueDuringAFailingPass(t *testing.T) {
	t.Parallel()
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.failTimes(emails, 5)
		q.next()

		enqueue(q, emails, priorityGrowth)
		q.fail(emails)

		_, _, waited := q.next()
		q.Expect(waited).To(Equal(retryDelay(5)), "as long as the pass before had to wait")
	})
}

// An event that comes while a retry succeeds is not left to the resync.
func TestEnqueueDuringASuccessfulRetry(t *testing.T) {
	t.Parallel()
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.failTimes(emails, 1)
		q.next()

		enqueue(q, emails, priorityGrowth)
		q.succeed(emails, 30*time.Second)

		_, _, waited := q.next()
		q.Expect(waited).To(Equal(retryDelay(1)))
		q.succeed(emails, 30*time.Second)
		enqueue(q, emails, priorityGrowth)
		_, _, waited = q.next()
		q.Expect(waited).To(BeZero(), "the failures are forgotten")
	})
}

func TestWakesDeliver(t *testing.T) {
	t.Parallel()
	for cause, want := range map[wakeup.Cause]int{
		wakeup.Growth: priorityGrowth, wakeup.Confirmed: priorityNormal, wakeup.Shrink: priorityResync,
	} {
		t.Run(cause.String(), func(t *testing.T) {
			t.Parallel()
			withQueue(t, func(ctx context.Context, q *workQueue) {
				wakes := make(Wakes, 1)
				wakes.Deliver(ctx, wakeup.Wake[types.NamespacedName]{ID: emails, Cause: cause})

				wakeHandler().Generic(ctx, <-wakes, q)

				key, priority, _ := q.next()
				q.Expect(key).To(Equal(emails))
				q.Expect(priority).To(Equal(want))
			})
		})
	}
}

// Nobody takes wake-ups before the controller has started and after it has stopped.
func TestWakesDeliverEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		delivered := make(chan struct{})
		go func() {
			make(Wakes).Deliver(ctx, wakeup.Wake[types.NamespacedName]{ID: emails})
			close(delivered)
		}()
		synctest.Wait()
		select {
		case <-delivered:
			t.Error("nobody took it")
		default:
		}

		cancel()
		<-delivered
	})
}

// owned is a Job of the ScaledJob with this name, changed.
func owned(name string, changes ...func(*batchv1.Job)) *batchv1.Job {
	sj := scaledJob()
	sj.Name = name
	job := jobs.Build(sj, 1, 0)
	for _, change := range changes {
		change(job)
	}
	return job
}

func TestJobHandler(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		send     func(context.Context, *workQueue)
		want     []string
		priority int
	}{
		"created": {
			func(ctx context.Context, q *workQueue) {
				jobHandler(ignoreFinish).Create(ctx, event.CreateEvent{Object: owned("emails")}, q)
			},
			[]string{"emails"},
			priorityNormal,
		},
		"listed at the start": {
			func(ctx context.Context, q *workQueue) {
				jobHandler(ignoreFinish).Create(ctx, event.CreateEvent{Object: owned("emails"), IsInInitialList: true}, q)
			},
			[]string{"emails"},
			priorityResync,
		},
		"updated": {
			func(ctx context.Context, q *workQueue) {
				jobHandler(ignoreFinish).Update(ctx, event.UpdateEvent{ObjectOld: owned("emails"), ObjectNew: owned("emails")}, q)
			},
			[]string{"emails"},
			priorityNormal,
		},
		"handed over": {
			func(ctx context.Context, q *workQueue) {
				jobHandler(ignoreFinish).Update(ctx, event.UpdateEvent{ObjectOld: owned("emails"), ObjectNew: owned("letters")}, q)
			},
			[]string{"emails", "letters"},
			priorityNormal,
		},
		"deleted": {
			func(ctx context.Context, q *workQueue) {
				jobHandler(ignoreFinish).Delete(ctx, event.DeleteEvent{Object: owned("emails")}, q)
			},
			[]string{"emails"},
			priorityNormal,
		},
		"nobody's": {
			func(ctx context.Context, q *workQueue) {
				orphan := owned("emails", func(job *batchv1.Job) { job.OwnerReferences = nil })
				jobHandler(ignoreFinish).Create(ctx, event.CreateEvent{Object: orphan}, q)
			},
			nil, 0,
		},
		"of a namesake of another kind": {
			func(ctx context.Context, q *workQueue) {
				cron := owned("emails", func(job *batchv1.Job) { job.OwnerReferences[0].Kind = "CronJob" })
				keda := owned("emails", func(job *batchv1.Job) { job.OwnerReferences[0].APIVersion = "keda.sh/v1alpha1" })
				jobHandler(ignoreFinish).Update(ctx, event.UpdateEvent{ObjectOld: cron, ObjectNew: keda}, q)
			},
			nil, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withQueue(t, func(ctx context.Context, q *workQueue) {
				c.send(ctx, q)
				synctest.Wait()

				q.Expect(q.Len()).To(Equal(len(c.want)))
				var got []string
				for range c.want {
					key, priority, _ := q.next()
					got = append(got, key.Name)
					q.Expect(key.Namespace).To(Equal("mail"))
					q.Expect(priority).To(Equal(c.priority))
				}
				q.Expect(got).To(ConsistOf(c.want))
			})
		})
	}
}

func TestJobChanged(t *testing.T) {
	t.Parallel()
	ready := func(n int32) func(*batchv1.Job) { return func(job *batchv1.Job) { job.Status.Ready = &n } }
	condition := func(kind batchv1.JobConditionType) func(*batchv1.Job) {
		return func(job *batchv1.Job) {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue})
		}
	}
	nothing := func(*batchv1.Job) {}
	for name, c := range map[string]struct {
		before, after func(*batchv1.Job)
		want          bool
	}{
		"nothing":            {nothing, nothing, false},
		"a Pod started":      {nothing, func(job *batchv1.Job) { job.Status.Active = 1 }, false},
		"a label":            {nothing, func(job *batchv1.Job) { job.Labels["a"] = "b" }, false},
		"got ready":          {nothing, ready(1), true},
		"told not ready":     {nothing, ready(0), false},
		"another Pod ready":  {ready(1), ready(2), false},
		"not ready any more": {ready(1), ready(0), true},
		"succeeded":          {nothing, condition(batchv1.JobComplete), true},
		"failed":             {nothing, condition(batchv1.JobFailed), true},
		"going to succeed":   {nothing, condition(batchv1.JobSuccessCriteriaMet), false},
		"suspended":          {nothing, condition(batchv1.JobSuspended), false},
		"being deleted":      {nothing, func(job *batchv1.Job) { job.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
		"released":           {nothing, func(job *batchv1.Job) { job.OwnerReferences = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			update := event.UpdateEvent{ObjectOld: owned("emails", c.before), ObjectNew: owned("emails", c.after)}
			NewWithT(t).Expect(jobChanged().Update(update)).To(Equal(c.want))
		})
	}
}

// ignoreFinish is for tests that are not about finished Jobs.
func ignoreFinish(types.NamespacedName, *batchv1.Job) { /* nothing to do */ }

func TestAJobThatFinishesIsReportedOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var outcomes []bool
	on := jobHandler(func(owner types.NamespacedName, job *batchv1.Job) {
		g.Expect(owner).To(Equal(emails))
		outcomes = append(outcomes, jobs.Succeeded(job))
	})
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
		on.Create(ctx, event.CreateEvent{Object: complete}, q) // It finished before it was seen.
		g.Expect(outcomes).To(Equal([]bool{true, false, true}))
	})
}
