// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
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
	"miracle.dev/scaledjob-operator/internal/leadership"
)

var (
	jobResource = batchv1.Resource("jobs")

	errForbidden = apierrors.NewForbidden(jobResource, "", errors.New("exceeded quota: small, requested: count/jobs.batch=1, used: count/jobs.batch=9, limited: count/jobs.batch=9"))
	errOverload  = apierrors.NewTooManyRequests("later", 1)
	errTimeout   = apierrors.NewTimeoutError("the request did not complete in time", 1)
)

// refuse answers a create with an error and does not carry it out.
func refuse(err error) func(context.Context, *batchv1.Job, func() error) error {
	return func(context.Context, *batchv1.Job, func() error) error { return err }
}

func send(_ context.Context, _ *batchv1.Job, send func() error) error { return send() }

// taking carries out a create after this time, unless its sender gives up.
func taking(wait time.Duration) func(context.Context, *batchv1.Job, func() error) error {
	return func(ctx context.Context, _ *batchv1.Job, send func() error) error {
		if err := hangs(ctx, wait); err != nil {
			return err
		}
		return send()
	}
}

// warmUp creates one Job, so that the template is known to be accepted.
func (w *fakeEnv) warmUp(ctx context.Context) {
	w.reconcileAt(ctx, 1)
	w.Expect(w.names()).To(HaveLen(1))
}

// A template that the API server may refuse gets one create first.
func TestScaleFirstOfANewTemplateAlone(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.warmUp(t.Context())
	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = "worker:refused"
	})
	w.queues.SetDepth(emailQueue, 200)
	w.onCreate = refuse(errForbidden)

	w.reconcile(t.Context())

	w.Expect(w.names()).To(HaveLen(2))
}

// An admission webhook may take longer than the normal timeout of a create.
func TestScaleIsPatientAfterATimeout(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.queues.SetDepth(emailQueue, 30)
		w.onCreate = taking(30 * time.Second)

		w.Expect(w.reconcileFails(ctx)).To(MatchError(context.DeadlineExceeded))
		w.Expect(w.jobs(ctx)).To(BeEmpty())
		w.Expect(w.inDoubt(ctx)).To(HaveLen(1))

		w.reconcile(ctx)
		w.Expect(w.jobs(ctx)).To(HaveLen(1), "no other create starts, because the observation is too old")
		for range 4 {
			_, _ = w.r.Reconcile(ctx, requestOf(emails))
		}
		w.Expect(w.jobs(ctx)).To(HaveLen(3))
	})
}

// A create that gets an answer, whichever, is tried again like one that was never tried.
func TestScaleIsPatientOnlyWithCreatesThatTimeOut(t *testing.T) {
	inBubbles(t, scaledJob(), map[string]error{
		"overload": errOverload, "no time": errTimeout, "away": errAway,
	}, func(ctx context.Context, w *fakeEnv, answer error) {
		w.queues.SetDepth(emailQueue, 30)
		w.onCreate = refuse(answer)
		_ = w.reconcileFails(ctx)
		w.Expect(w.r.memories.of(scaledJob()).createsSlowly).To(BeFalse())
	})
}

// A create that may take half a minute starts when the status shows why the last one failed.
func TestScaleShowsATimeoutFirst(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.reconcile(ctx)
		shown := ""
		w.onCreate = func(ctx context.Context, job *batchv1.Job, send func() error) error {
			shown = w.limited(ctx)
			return taking(10*time.Second)(ctx, job, send)
		}
		w.queues.SetDepth(emailQueue, 1)
		w.Expect(w.reconcileFails(ctx)).To(MatchError(context.DeadlineExceeded))
		w.Expect(shown).To(Equal(scaledjobv1.ReasonNotLimited))

		w.reconcile(ctx)
		w.Expect(shown).To(Equal(scaledjobv1.ReasonCreateFailing))
		w.Expect(w.jobs(ctx)).To(HaveLen(1))
	})
}

// Statuses that can't be written do not keep Jobs from being created.
func TestScaleDoesNotWaitForTheStatus(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.onApply = func() error { return errAway }
		w.onCreate = taking(10 * time.Second)
		w.queues.SetDepth(emailQueue, 1)
		w.Expect(w.reconcileFails(ctx)).To(MatchError(context.DeadlineExceeded))
		for range 6 {
			time.Sleep(w.reconcile(ctx).RequeueAfter)
		}
		w.Expect(w.jobs(ctx)).To(HaveLen(1))
	})
}

func TestScaleLetsOthersHaveATurn(t *testing.T) {
	sj := scaledJob()
	sj.Spec.MaxReplicas = new(int32(1000))
	inBubble(t, sj, func(ctx context.Context, w *fakeEnv) {
		w.Expect(w.reconcileAt(ctx, 5200)).To(beRequeue(moreRetry, enqueue.PriorityGrowth))
		w.Expect(w.jobs(ctx)).To(HaveLen(createsPerReconcile))
		w.Expect(w.reconcile(ctx)).To(beSettled())
		w.Expect(w.jobs(ctx)).To(HaveLen(520))
		w.Expect(w.scaledJob(ctx).Status.ActiveJobs).To(Equal(int32(520)))
	})
}

func TestScaleStopsAtAnError(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.queues.SetDepth(emailQueue, 200)
		w.onCreate = refuse(errOverload)

		for attempt := range 3 {
			w.Expect(w.reconcileFails(ctx)).To(MatchError(errOverload))
			w.Expect(w.names()).To(HaveLen(attempt+1), "one per reconcile")
		}
		w.Expect(sets.New(w.names()...)).To(HaveLen(1), "the ordinal of a refused Job is used again")
		w.Expect(w.events.reasons).To(Equal([]string{"CreateFailing"}), "once, and not in every reconcile")
		w.Expect(w.watcher.idle).To(BeTrue())

		time.Sleep(time.Minute) // so that no write of the status is delayed
		w.onCreate = send
		w.Expect(w.reconcile(ctx)).To(beSettled())
		w.Expect(w.jobs(ctx)).To(HaveLen(20))

		w.finish(ctx, w.names()[0], batchv1.JobComplete)
		time.Sleep(time.Minute)
		w.onCreate = refuse(errOverload)
		_ = w.reconcileFails(ctx)
		w.Expect(w.events.reasons).To(Equal([]string{"CreateFailing", "CreationResumed", "CreatedJobs", "CreateFailing"}))
	})
}

// After a create of a batch has failed, the remaining ones are not sent.
func TestScaleStopsWithinABatch(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.warmUp(ctx)
		w.queues.SetDepth(emailQueue, 200)
		w.onCreate = func(context.Context, *batchv1.Job, func() error) error {
			time.Sleep(time.Second)
			return errOverload
		}

		_ = w.reconcileFails(ctx)

		w.Expect(w.names()).To(HaveLen(1 + jobcontrol.AtOnce))
		w.Expect(w.inDoubt(ctx)).To(BeEmpty(), "the API server answered")

		_ = w.reconcileFails(ctx)
		w.Expect(w.names()).To(HaveLen(1+jobcontrol.AtOnce+1), "after a failure, a batch of one")
	})
}

// A canceled create has no answer. So creates in flight when the operator receives a signal to stop may end.
func TestScaleOutlivesTheSignalToStop(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.queues.SetDepth(emailQueue, 25)
		ctx, stop := context.WithCancel(ctx)
		w.onCreate = func(ctx context.Context, job *batchv1.Job, send func() error) error {
			stop()
			return taking(time.Second)(ctx, job, send)
		}

		w.reconcile(ctx)

		w.Expect(w.jobs(ctx)).To(HaveLen(1), "the create in flight ends, and no other starts")
		w.Expect(w.inDoubt(ctx)).To(BeEmpty())
	})
}

// During the deletion of a ScaledJob, its Jobs are deleted one by one, and the cache may show that before the deletion
// of the ScaledJob.
func TestScaleReplacesNoJobOfAGoingOwner(t *testing.T) {
	type row struct {
		answer func(client.Object) error
		// once is true if the answer to the write of the condition shows that the ScaledJob exists.
		once bool
	}
	inBubbles(t, scaledJob(), map[string]row{
		"going":      {answer: beingDeleted},
		"gone":       {answer: func(client.Object) error { return apierrors.NewNotFound(schema.GroupResource{}, "emails") }},
		"another":    {answer: func(o client.Object) error { o.SetUID("uid-2"); return nil }},
		"not to ask": {answer: func(client.Object) error { return errAway }, once: true},
	}, func(ctx context.Context, w *fakeEnv, c row) {
		w.reconcileAt(ctx, 25)
		w.delete(ctx, w.names()[1])
		w.onLiveGet = c.answer

		_, _ = w.r.Reconcile(ctx, requestOf(emails))
		if !c.once {
			_, _ = w.r.Reconcile(ctx, requestOf(emails))
		}
		w.Expect(w.names()).To(HaveLen(3))

		w.onLiveGet = func(client.Object) error { return nil }
		w.Expect(w.reconcile(ctx)).To(beSettled(), "the ScaledJob exists: a user deleted the Job, and messages are waiting")
		w.Expect(w.names()).To(HaveLen(4))
	})
}

// beingDeleted makes an answer show a ScaledJob that is being deleted.
func beingDeleted(object client.Object) error {
	object.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	return nil
}

// A new process can't know whether a Job is missing.
func TestScaleAsksBeforeItsFirstCreate(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.queues.SetDepth(emailQueue, 25)
	w.onLiveGet = beingDeleted

	w.Expect(w.reconcile(t.Context())).To(beSettled())

	w.Expect(w.names()).To(BeEmpty())
}

// The answer to a write of the status after the Jobs were counted shows that the ScaledJob exists, unless it says that
// it is being deleted.
func TestScaleTakesTheAnswerToAStatus(t *testing.T) {
	inBubbles(t, scaledJob(), map[string]bool{
		"exists": false, "is being deleted": true,
	}, func(ctx context.Context, w *fakeEnv, going bool) {
		asked := 0
		w.onLiveGet = func(client.Object) error { asked++; return nil }
		if going {
			w.onAnswer = func(status client.Object) { _ = beingDeleted(status) }
		}
		w.reconcile(ctx)
		w.Expect(w.applied).To(Equal(1))

		w.reconcileAt(ctx, 25)

		w.Expect(w.names()).To(HaveLen(3))
		w.Expect(asked == 1).To(Equal(going))
		w.Expect(asked).To(BeNumerically("<=", 1))
	})
}

// If no Job has disappeared, or none is due, the operator does not read the ScaledJob from the API server.
func TestScaleAsksOnlyIfAJobIsMissing(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.reconcileAt(t.Context(), 25)
	w.onLiveGet = func(client.Object) error { return errAway }
	w.finish(t.Context(), w.names()[0], batchv1.JobComplete)
	w.reconcile(t.Context())
	w.Expect(w.names()).To(HaveLen(4))

	w.queues.SetDepth(emailQueue, 0)
	w.delete(t.Context(), w.names()[1])
	w.reconcile(t.Context())

	w.queues.SetDepth(emailQueue, 25)
	w.Expect(w.reconcileFails(t.Context())).To(MatchError(errAway), "the missing Job has not been confirmed yet")
}

// suspend is the emergency stop. With a slow API server, creates of the reconcile that has begun would go on for
// minutes.
func TestCreatingEndsSoonAfterSuspension(t *testing.T) {
	sj := scaledJob()
	sj.Spec.MaxReplicas = new(int32(1000))
	inBubble(t, sj, func(ctx context.Context, w *fakeEnv) {
		w.warmUp(ctx)
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
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = true })
			stopped.Store(true)
		}()
		w.reconcile(ctx)
		w.Expect(begunAfter.Load()).To(BeNumerically("<=", 16),
			"creates sent after the emergency stop")
	})
}

// An admission webhook may change the created Job. A Job without the owner reference does not count, so the operator
// would create Jobs without end. The answer of the API server shows that the Job is not owned.
func TestJobsThatLoseTheirOwnerAreNotCreatedWithoutEnd(t *testing.T) {
	w := inParallel(t, scaledJob())
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

// While the creates of a namespace hang, one reconcile waits until the webhook is named, and the others only as long as
// usual.
func TestOneReconcileOfANamespaceIsPatient(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := &Reconciler{}
	of := func(namespace, name string) *target { return targetOf(&r.memories, namespace, name) }
	allowed := func(t *target) time.Duration {
		timeout, _ := r.createTimeout(t)
		return timeout
	}
	a, b, elsewhere := of("mail", "a"), of("mail", "b"), of("images", "c")
	for _, each := range []*target{a, b, elsewhere} {
		g.Expect(allowed(each)).To(Equal(createTimeout))
		r.memories.noteCreates(each, true, createTimeout)
	}
	timeout, end := r.createTimeout(a)
	g.Expect(timeout).To(Equal(patientTimeout))
	g.Expect(allowed(b)).To(Equal(createTimeout))
	g.Expect(allowed(elsewhere)).To(Equal(patientTimeout))
	end()
	g.Expect(allowed(b)).To(Equal(patientTimeout))
	r.memories.noteCreates(b, false, patientTimeout-time.Second)
	g.Expect(allowed(a)).To(Equal(patientTimeout), "slow creates succeed")
	g.Expect(allowed(b)).To(Equal(patientTimeout))
}

// A leader starts no create that could outlast its Lease. Creates with the long timeout end together with the process.
func TestCreatesAreAsLongAsTheLeaseLeavesRoomFor(t *testing.T) {
	t.Parallel()
	NewWithT(t).Expect(createTimeout).To(Equal(leadership.LongestCreate))
}

// A proxy may answer 201 without the Job in the body. The operator must not take the Job as seen.
func TestAnswerWithoutIdentityIsAwaited(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.queues.SetDepth(emailQueue, 30)
		w.cacheIsAt("0")
		w.hidden = func(*batchv1.Job) bool { return true }
		w.onCreate = func(_ context.Context, job *batchv1.Job, send func() error) error {
			err := send()
			job.UID, job.ResourceVersion = "", ""
			return err
		}
		for range 10 {
			_, _ = w.r.Reconcile(ctx, requestOf(emails))
			time.Sleep(5 * time.Second)
		}
		w.Expect(len(w.jobs(ctx))).To(BeNumerically("<=", 3), "Jobs for the 3 that are due")
	})
}

// Admission policies may remove the annotations. Failing Jobs must still pause creation.
func TestJobsWithoutAnnotationsThatFailPauseCreating(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.queues.SetDepth(emailQueue, 30)
	w.onCreate = func(_ context.Context, job *batchv1.Job, send func() error) error {
		job.Annotations = nil
		return send()
	}
	for range 10 {
		w.reconcile(t.Context())
		w.finishActive(t.Context(), batchv1.JobFailed)
	}
	w.Expect(len(w.jobs(t.Context()))).To(BeNumerically("<=", 6), "Jobs, all of which fail")
}

// running returns the number of Jobs that have not finished.
func (w *fakeEnv) running(ctx context.Context) (running int) {
	for _, job := range w.jobs(ctx) {
		if !jobs.Finished(&job) {
			running++
		}
	}
	return running
}

// A create is held up on its way, gets no answer, and is sent again. It must not create a Job above maxReplicas when it
// lands, whatever has become of the Job of this name by then.
func TestAHeldCreateThatLandsLateCreatesNoJobTooMany(t *testing.T) {
	sj := scaledJob()
	sj.Spec.MaxReplicas, sj.Spec.SuccessfulJobsHistoryLimit = new(int32(1)), new(int32(0))
	type row struct {
		refused bool // the first time that it is sent again
		deleted bool // by somebody else, as soon as the Job has finished
	}
	inBubbles(t, sj, map[string]row{
		"pruned":                     {},
		"refused in between":         {refused: true},
		"deleted by somebody else":   {deleted: true},
		"deleted, and refused first": {deleted: true, refused: true},
	}, func(ctx context.Context, w *fakeEnv, c row) {
		w.queues.SetDepth(emailQueue, 1000)
		var land func() error
		w.onCreate = func(ctx context.Context, _ *batchv1.Job, send func() error) error {
			land = send
			<-ctx.Done()
			return ctx.Err()
		}
		_ = w.reconcileFails(ctx)
		if c.refused {
			w.onCreate = refuse(errOverload)
			_ = w.reconcileFails(ctx)
		}
		w.onCreate = send
		w.reconcile(ctx)
		for _, job := range w.jobs(ctx) {
			w.finish(ctx, job.Name, batchv1.JobComplete)
			if c.deleted {
				w.delete(ctx, job.Name)
			}
		}
		w.reconcile(ctx)
		w.Expect(w.running(ctx)).To(Equal(1))

		_ = land()

		w.Expect(w.running(ctx)).To(Equal(1))

		w.reconcileAfter(ctx, 2*time.Minute)
		w.reconcile(ctx)
		w.Expect(w.inDoubt(ctx)).To(BeEmpty(), "after that time nothing is in doubt")
		w.Expect(w.jobs(ctx)).To(HaveLen(1), "and the finished Jobs are pruned")
	})
}
