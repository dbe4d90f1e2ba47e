// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

var (
	jobResource = batchv1.Resource("jobs")

	errForbidden = apierrors.NewForbidden(jobResource, "", errors.New("exceeded quota"))
	errOverload  = apierrors.NewTooManyRequests("later", 1)
	errTimeout   = apierrors.NewTimeoutError("the request did not complete in time", 1)
)

// refuse answers a create with an error without carrying it out.
func refuse(err error) func(context.Context, *batchv1.Job, func() error) error {
	return func(context.Context, *batchv1.Job, func() error) error { return err }
}

// send carries a create out.
func send(_ context.Context, _ *batchv1.Job, send func() error) error { return send() }

// warmUp makes the template one that the API server is known to accept, with one Job.
func (w *world) warmUp(ctx context.Context) {
	w.queues.SetDepth(emailQueue, 1)
	w.reconcile(ctx)
	w.Expect(w.names()).To(HaveLen(1))
}

func TestScaleFirstOfATemplateAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	var begun, ended atomic.Int32
	w.onCreate = func(_ context.Context, _ *batchv1.Job, send func() error) error {
		if begun.Add(1) > 1 && ended.Load() == 0 {
			t.Error("another create began before the first had ended")
		}
		defer ended.Add(1)
		return send()
	}
	w.queues.SetDepth(emailQueue, 200)

	w.reconcile(t.Context())

	w.Expect(w.jobs(t.Context())).To(HaveLen(20))
}

// The same holds for each template anew.
func TestScaleFirstOfANewTemplateAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.warmUp(t.Context())
	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = "worker:refused"
	})
	w.queues.SetDepth(emailQueue, 200)
	w.onCreate = refuse(errForbidden)

	w.reconcile(t.Context())

	w.Expect(w.names()).To(HaveLen(2))
}

func TestScaleManyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.warmUp(t.Context())
		w.queues.SetDepth(emailQueue, 200)
		w.onCreate = func(_ context.Context, _ *batchv1.Job, send func() error) error {
			time.Sleep(time.Second)
			return send()
		}
		start := time.Now()

		w.reconcile(t.Context())

		w.Expect(w.jobs(t.Context())).To(HaveLen(20))
		// 19 creates of a second each, 16 of them at a time.
		w.Expect(time.Since(start)).To(Equal(2 * time.Second))
	})
}

// An admission webhook may take longer than a create is given at first.
func TestScaleIsPatientAfterATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.queues.SetDepth(emailQueue, 30)
		w.onCreate = func(ctx context.Context, _ *batchv1.Job, send func() error) error {
			select {
			case <-time.After(30 * time.Second):
				return send()
			case <-ctx.Done():
				return ctx.Err()
			}
		}

		w.Expect(w.reconcileFails(t.Context())).To(MatchError(context.DeadlineExceeded))
		w.Expect(w.jobs(t.Context())).To(BeEmpty())
		w.Expect(w.inDoubt(t.Context())).To(HaveLen(1))

		w.reconcile(t.Context())
		w.Expect(w.jobs(t.Context())).To(HaveLen(1), "and no other begins, since what was seen is old by now")
		for range 4 {
			_, _ = w.r.Reconcile(t.Context(), requestOf(emails))
		}
		w.Expect(w.jobs(t.Context())).To(HaveLen(3))
	})
}

// Workers that wait for slow creates are workers that others wait for.
func TestScaleIsPatientWithFewAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.queues.SetDepth(emailQueue, 30)
	w.onCreate = func(context.Context, *batchv1.Job, func() error) error { return errTimeout }
	_ = w.reconcileFails(t.Context())
	w.onCreate = send
	w.Expect(w.r.patience.TryAcquire(1)).To(BeTrue())

	result := w.reconcile(t.Context())

	w.Expect(w.jobs(t.Context())).To(BeEmpty())
	w.Expect(result.RequeueAfter).To(BeNumerically("~", busyRetry, busyRetry/5))
	w.r.patience.Release(1)
	w.reconcile(t.Context())
	w.Expect(w.jobs(t.Context())).To(HaveLen(3))
}

func TestScaleLetsOthersHaveATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sj := scaledJob()
		sj.Spec.MaxReplicas = new(int32(1000))
		w := newWorld(t, sj)
		w.queues.SetDepth(emailQueue, 1300)

		w.Expect(w.reconcile(t.Context())).To(beRequeue(moreRetry, enqueue.PriorityGrowth))
		w.Expect(w.jobs(t.Context())).To(HaveLen(128))
		w.Expect(w.reconcile(t.Context())).To(beSettled())
		w.Expect(w.jobs(t.Context())).To(HaveLen(130))
		w.Expect(w.scaledJob(t.Context()).Status.ActiveJobs).To(Equal(int32(130)))
	})
}

func TestScaleStopsAtAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.queues.SetDepth(emailQueue, 200)
	w.onCreate = refuse(errOverload)

	for pass := range 3 {
		w.Expect(w.reconcileFails(t.Context())).To(MatchError(errOverload))
		w.Expect(w.names()).To(HaveLen(pass+1), "one for each pass")
	}
	w.Expect(sets.New(w.names()...)).To(HaveLen(1), "a number that was refused is used again")
	w.Expect(w.events.reasons).To(Equal([]string{"JobCreateFailed"}), "once, and not with each pass")
	w.Expect(w.watcher.idle).To(BeTrue())

	w.onCreate = send
	w.Expect(w.reconcile(t.Context())).To(beSettled())
	w.Expect(w.jobs(t.Context())).To(HaveLen(20))

	w.finish(t.Context(), w.names()[0], batchv1.JobComplete)
	w.onCreate = refuse(errOverload)
	_ = w.reconcileFails(t.Context())
	w.Expect(w.events.reasons).To(Equal([]string{"JobCreateFailed", "CreatedJobs", "JobCreateFailed"}))
}

// Once one create of a batch has failed, those that wait for their turn are not sent.
func TestScaleStopsWithinABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.warmUp(t.Context())
		w.queues.SetDepth(emailQueue, 200)
		w.onCreate = func(context.Context, *batchv1.Job, func() error) error {
			time.Sleep(time.Second)
			return errOverload
		}

		_ = w.reconcileFails(t.Context())

		w.Expect(w.names()).To(HaveLen(1 + jobcontrol.AtOnce))
		w.Expect(w.inDoubt(t.Context())).To(BeEmpty(), "the API server did answer")

		_ = w.reconcileFails(t.Context())
		w.Expect(w.names()).To(HaveLen(1+jobcontrol.AtOnce+1), "after a failure, one alone")
	})
}

// Others of the batch may have been created when one fails.
func TestScalePartOfABatchFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.warmUp(t.Context())
	w.queues.SetDepth(emailQueue, 200)
	unlucky := jobs.Name("emails", "uid-1", 5)
	w.onCreate = func(_ context.Context, job *batchv1.Job, send func() error) error {
		if job.Name == unlucky {
			return errOverload
		}
		return send()
	}
	_ = w.reconcileFails(t.Context())
	w.onCreate = send

	w.Expect(w.reconcile(t.Context())).To(beSettled())

	w.Expect(w.jobs(t.Context())).To(HaveLen(20))
}

// A create that ended without an answer may have made a Job.
func TestScaleLostAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// carriedOut says that the Job was created although the answer was an error, shown that the cache has it by the next pass.
		carriedOut, shown bool
		answer            error
	}{
		"carried out, shown":        {true, true, errTimeout},
		"carried out, not yet seen": {true, false, errTimeout},
		"not carried out":           {false, false, errTimeout},
		"connection lost":           {true, false, errAway},
		"server error":              {true, false, apierrors.NewInternalError(errAway)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, scaledJob())
				w.cacheIsAt("0")
				w.queues.SetDepth(emailQueue, 25)
				w.onCreate = func(_ context.Context, _ *batchv1.Job, send func() error) error {
					if c.carriedOut {
						w.Expect(send()).To(Succeed())
					}
					return c.answer
				}
				lost := jobs.Name("emails", "uid-1", 1)
				w.hidden = func(job *batchv1.Job) bool { return job.Name == lost && !c.shown }
				w.Expect(w.reconcileFails(t.Context())).To(MatchError(c.answer))
				w.Expect(w.names()).To(Equal([]string{lost}))

				w.onCreate = send
				w.reconcile(t.Context())
				if c.carriedOut && !c.shown {
					w.Expect(w.reconcile(t.Context())).To(beRequeue(staleRetry, enqueue.PriorityNormal), "the Job is known to exist, and awaited")
				}
				w.hidden = func(*batchv1.Job) bool { return false }
				w.Expect(w.reconcile(t.Context())).To(beSettled())

				w.Expect(w.jobs(t.Context())).To(HaveLen(3))
				w.Expect(sets.New(w.names()...)).To(HaveLen(3), "never under another name")
				w.Expect(w.inDoubt(t.Context())).To(BeEmpty())
				w.Expect(w.scaledJob(t.Context()).Status.ActiveJobs).To(Equal(int32(3)))
			})
		})
	}
}

// While it is not known whether the Job exists, no other takes its place, even if nothing more is due.
func TestScaleLostAnswerCountsAsActive(t *testing.T) {
	t.Parallel()
	sj := scaledJob()
	sj.Spec.MaxReplicas = new(int32(2))
	w := newWorld(t, sj)
	w.warmUp(t.Context())
	w.queues.SetDepth(emailQueue, 200)
	w.onCreate = refuse(errTimeout)
	_ = w.reconcileFails(t.Context())
	_ = w.reconcileFails(t.Context())

	w.Expect(w.names()[1:]).To(HaveEach(jobs.Name("emails", "uid-1", 2)))

	w.queues.SetDepth(emailQueue, 1)
	w.Expect(w.reconcile(t.Context())).To(beSettled(), "it is not due any more, and not sent again")
	w.Expect(w.names()).To(HaveLen(3))
}

// A create that hangs must not hold the pass for ever, and may still be carried out.
func TestScaleHangingCreate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.queues.SetDepth(emailQueue, 1)
		w.onCreate = func(ctx context.Context, _ *batchv1.Job, _ func() error) error {
			<-ctx.Done()
			return ctx.Err()
		}
		start := time.Now()

		_ = w.reconcileFails(t.Context())

		w.Expect(time.Since(start)).To(Equal(createTimeout))
		w.Expect(w.inDoubt(t.Context())).To(HaveLen(1))
	})
}

// A create that is cancelled is one without an answer. So those under way when the operator is told to stop end by themselves.
func TestScaleOutlivesTheSignalToStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.queues.SetDepth(emailQueue, 25)
		ctx, stop := context.WithCancel(t.Context())
		w.onCreate = func(ctx context.Context, _ *batchv1.Job, send func() error) error {
			stop()
			select {
			case <-time.After(time.Second):
				return send()
			case <-ctx.Done():
				return ctx.Err()
			}
		}

		w.reconcile(ctx)

		w.Expect(w.jobs(t.Context())).To(HaveLen(1), "the create under way ends, and no other begins")
		w.Expect(w.inDoubt(t.Context())).To(BeEmpty())
	})
}

// A former leader's create that was carried out after this process took over: neither the cache nor the gate knows of it.
func TestScaleNameTakenByOurOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.hidden = func(*batchv1.Job) bool { return true }
	w.cacheIsAt("0")
	w.reconcile(t.Context())
	own := jobs.Build(scaledJob(), 1, 0)
	own.UID = "own"
	w.Expect(w.api.Create(t.Context(), own)).To(Succeed())
	w.queues.SetDepth(emailQueue, 25)

	w.Expect(w.reconcile(t.Context())).To(beRequeue(moreRetry, enqueue.PriorityGrowth), "it is no failure")
	w.Expect(w.names()).To(HaveLen(1))
	w.Expect(w.events.reasons).To(BeEmpty())
	w.Expect(w.reconcile(t.Context())).To(beRequeue(staleRetry, enqueue.PriorityNormal), "the Job is awaited")

	w.hidden = func(*batchv1.Job) bool { return false }
	w.Expect(w.reconcile(t.Context())).To(beSettled())
	w.Expect(w.jobs(t.Context())).To(HaveLen(3))
}

// Without the annotation that tells its number, our own Job is counted, but its name would be due again and again.
func TestScaleNameTakenByOurOwnWithoutItsNumber(t *testing.T) {
	t.Parallel()
	sj := scaledJob()
	own := jobs.Build(sj, 1, 0)
	own.UID, own.Annotations = "own", nil
	w := newWorld(t, sj, own)
	w.queues.SetDepth(emailQueue, 25)

	w.Expect(w.reconcile(t.Context())).To(beRequeue(moreRetry, enqueue.PriorityGrowth))
	w.Expect(w.reconcile(t.Context())).To(beSettled())

	w.Expect(w.jobs(t.Context())).To(HaveLen(3))
	w.Expect(w.names()).To(HaveLen(3), "each name was tried once")
}

func TestScaleNameTakenByAForeignJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sj := scaledJob()
		foreign := jobs.Build(sj, 1, 0)
		foreign.OwnerReferences = nil
		former := jobs.Build(sj, 2, 0)
		former.OwnerReferences[0].UID = "another"
		w := newWorld(t, sj, foreign, former)
		w.queues.SetDepth(emailQueue, 25)

		for range 2 {
			w.Expect(w.reconcile(t.Context())).To(beRequeue(moreRetry, enqueue.PriorityGrowth))
		}
		w.Expect(w.reconcile(t.Context())).To(beSettled())

		w.Expect(w.jobs(t.Context())).To(HaveLen(5), "three of ours, and the two that were there")
		w.Expect(w.names()).To(HaveLen(5), "each name was tried once")
		w.Expect(w.scaledJob(t.Context()).Status.ActiveJobs).To(Equal(int32(3)))
	})
}

// The Job of the name that was due may be gone by the time it is looked at.
func TestScaleNameFreeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.queues.SetDepth(emailQueue, 25)
	w.onCreate = refuse(apierrors.NewAlreadyExists(jobResource, "gone"))

	w.Expect(w.reconcileFails(t.Context())).To(MatchError(apierrors.IsAlreadyExists, "IsAlreadyExists"))
	w.onCreate = send
	w.Expect(w.reconcile(t.Context())).To(beSettled())

	w.Expect(w.jobs(t.Context())).To(HaveLen(3))
	w.Expect(sets.New(w.names()...)).To(HaveLen(3), "the number is used")
}

func TestScaleNameTakenAndNobodyTells(t *testing.T) {
	t.Parallel()
	sj := scaledJob()
	own := jobs.Build(sj, 1, 0)
	own.UID = "own"
	w := newWorld(t, sj, own)
	w.hidden = func(*batchv1.Job) bool { return true }
	w.queues.SetDepth(emailQueue, 25)
	w.onLiveGet = func(object client.Object) error {
		if _, isJob := object.(*batchv1.Job); isJob {
			return errAway
		}
		return nil
	}

	for range 2 {
		w.Expect(w.reconcileFails(t.Context())).To(MatchError(errAway))
	}

	w.Expect(w.jobs(t.Context())).To(HaveLen(1))
	w.Expect(sets.New(w.names()...)).To(HaveLen(1))
}

// While a ScaledJob is deleted, its Jobs go one by one, and the cache may show that before it shows the deletion.
func TestScaleReplacesNoJobOfAGoingOwner(t *testing.T) {
	t.Parallel()
	answers := map[string]func(client.Object) error{
		"going": func(o client.Object) error {
			o.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
			return nil
		},
		"gone":       func(client.Object) error { return apierrors.NewNotFound(schema.GroupResource{}, "emails") },
		"another":    func(o client.Object) error { o.SetUID("uid-2"); return nil },
		"not to ask": func(client.Object) error { return errAway },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, scaledJob())
			w.queues.SetDepth(emailQueue, 25)
			w.reconcile(t.Context())
			w.delete(t.Context(), w.names()[1])
			w.onLiveGet = answer

			for range 2 {
				_, _ = w.r.Reconcile(t.Context(), requestOf(emails))
			}
			w.Expect(w.names()).To(HaveLen(3))

			w.onLiveGet = func(client.Object) error { return nil }
			w.Expect(w.reconcile(t.Context())).To(beSettled(), "it stands: a user deleted the Job, and messages wait")
			w.Expect(w.names()).To(HaveLen(4))
		})
	}
}

// A process that has just begun can't tell whether a Job is missing.
func TestScaleAsksBeforeItsFirstCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.queues.SetDepth(emailQueue, 25)
	w.onLiveGet = func(object client.Object) error {
		object.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
		return nil
	}

	w.Expect(w.reconcile(t.Context())).To(beSettled())

	w.Expect(w.names()).To(BeEmpty())
}

// As long as no Job is missed, and none is due, nobody is asked.
func TestScaleAsksOnlyIfAJobIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.queues.SetDepth(emailQueue, 25)
	w.reconcile(t.Context())
	w.onLiveGet = func(client.Object) error { return errAway }
	w.finish(t.Context(), w.names()[0], batchv1.JobComplete)
	w.reconcile(t.Context())
	w.Expect(w.names()).To(HaveLen(4))

	w.queues.SetDepth(emailQueue, 0)
	w.delete(t.Context(), w.names()[1])
	w.reconcile(t.Context())

	w.queues.SetDepth(emailQueue, 25)
	w.Expect(w.reconcileFails(t.Context())).To(MatchError(errAway), "it was missing before, and was not asked about yet")
}

func TestScaleOrdinalsContinue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.queues.SetDepth(emailQueue, 25)
	w.reconcile(t.Context())
	w.finish(t.Context(), w.names()[2], batchv1.JobComplete)
	w.reconcile(t.Context())

	var want []string
	for ordinal := range int64(4) {
		want = append(want, jobs.Name("emails", "uid-1", ordinal+1))
	}
	w.Expect(slices.Sorted(slices.Values(w.names()))).To(Equal(slices.Sorted(slices.Values(want))))
}

// maxReplicas 0 is the emergency stop. Where the API server is slow, a pass of 128 creates takes half a minute.
func TestCreatingEndsSoonAfterMaxReplicasIsLowered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sj := scaledJob()
		sj.Spec.MaxReplicas = new(int32(1000))
		w := newWorld(t, sj)
		w.warmUp(t.Context())
		w.queues.SetDepth(emailQueue, 10000)
		var stopped atomic.Bool
		var begunAfter atomic.Int32
		w.onCreate = func(_ context.Context, _ *batchv1.Job, send func() error) error {
			if stopped.Load() {
				begunAfter.Add(1)
			}
			time.Sleep(3900 * time.Millisecond)
			return send()
		}
		go func() {
			time.Sleep(time.Second)
			w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxReplicas = new(int32(0)) })
			stopped.Store(true)
		}()
		w.reconcile(t.Context())
		w.Expect(begunAfter.Load()).To(BeNumerically("<=", 16), "creates sent after the emergency stop, over %s", 3900*time.Millisecond*7)
	})
}

// An admission webhook may change what is created. A Job without our owner reference is not counted, so that creating on and on would fill the
// cluster: the answer of the API server shows that it is not ours.
func TestJobsThatLoseTheirOwnerAreNotCreatedWithoutEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.queues.SetDepth(emailQueue, 30)
	w.onCreate = func(_ context.Context, job *batchv1.Job, send func() error) error {
		job.OwnerReferences = nil
		return send()
	}
	for range 10 {
		_, _ = w.r.Reconcile(t.Context(), requestOf(emails))
	}
	w.Expect(len(w.jobs(t.Context()))).To(BeNumerically("<=", 3), "Jobs for the 3 that are due")
}
