// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/retry"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

var errAway = errors.New("the API server is away")

// beResync matches the result of a complete reconcile, for a polling interval of 30 s.
func beResync() OmegaMatcher {
	return And(
		HaveField("Priority", HaveValue(Equal(enqueue.PriorityResync))),
		HaveField("RequeueAfter", And(BeNumerically(">=", 27*time.Second), BeNumerically("<=", 33*time.Second))),
	)
}

// beSettled matches the result of a reconcile that is complete except for the status write, which may be delayed by up
// to a second.
func beSettled() OmegaMatcher {
	return And(
		HaveField("Priority", HaveValue(Equal(enqueue.PriorityResync))),
		HaveField("RequeueAfter", BeNumerically("<=", 33*time.Second)),
	)
}

func beRequeue(after time.Duration, priority int) OmegaMatcher {
	return Equal(ctrl.Result{RequeueAfter: after, Priority: &priority})
}

func TestReconcileCreatesWhatIsDue(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.Expect(w.reconcileAt(t.Context(), 47)).To(beResync())

	w.Expect(w.jobs(t.Context())).To(HaveLen(5))
	status := w.scaledJob(t.Context()).Status
	w.Expect(status.ObservedGeneration).To(Equal(int64(1)))
	w.Expect(status.QueueDepth).To(HaveValue(Equal(int64(47))))
	w.Expect(status.DesiredJobs).To(HaveValue(Equal(int32(5))))
	w.Expect(status.ActiveJobs).To(Equal(int32(5)))
	w.Expect(status.PendingJobs).To(Equal(int32(5)))
	w.Expect(status.LastScaleTime).NotTo(BeNil())
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionReady).Reason).To(Equal(scaledjobv1.ReasonReconciled))
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionTemplateValid).Reason).To(Equal(scaledjobv1.ReasonAccepted))
	w.Expect(w.events.reasons).To(Equal([]string{"CreatedJobs"}))
	w.Expect(w.watcher.endpoint).To(Equal(auth.Endpoint{Address: address}))
	w.Expect(w.watcher.keys).To(Equal([]keyspace.Key{{Name: "emails", Class: verify.ClassList, Final: true}}))
	w.Expect(w.watcher.idle).To(BeFalse())
}

func TestReconcileAgainDoesNothing(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.reconcileAt(t.Context(), 47)
	jobs, sj := w.jobs(t.Context()), w.scaledJob(t.Context())

	for range 3 {
		w.Expect(w.reconcile(t.Context())).To(beResync())
	}

	w.Expect(w.jobs(t.Context())).To(Equal(jobs))
	w.Expect(w.scaledJob(t.Context())).To(Equal(sj))
	w.Expect(w.applied).To(Equal(1), "an unchanged status is not written")
	w.Expect(w.events.reasons).To(HaveLen(1))
}

func TestReconcileUnknownDepth(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 25)
		before := w.scaledJob(ctx).Status
		w.delete(ctx, w.names()[0])

		w.queues.SetError(emailQueue, &failure.Error{
			Reason: failure.ReasonUnreachable, Message: "Start it.", Err: errors.New("dial tcp 10.0.0.1:6379: refused"),
		})
		result := w.reconcile(ctx)

		w.Expect(w.names()).To(HaveLen(3), "no Job is created for an unknown depth")
		w.Expect(result.Priority).To(HaveValue(Equal(enqueue.PriorityResync)))
		w.Expect(result.RequeueAfter).To(BeNumerically("<=", unreadableRetry+unreadableRetry/10))
		after := w.scaledJob(ctx).Status
		w.Expect(after.QueueDepth).To(Equal(before.QueueDepth))
		w.Expect(after.DesiredJobs).To(Equal(before.DesiredJobs))
		w.Expect(after.ActiveJobs).To(Equal(int32(2)), "counting needs no Redis")
		for _, kind := range []string{scaledjobv1.ConditionQueueConnected, scaledjobv1.ConditionReady} {
			condition := w.condition(ctx, kind)
			w.Expect(condition).To(beCondition(metav1.ConditionFalse, scaledjobv1.ReasonUnreachable), kind)
			w.Expect(condition.Message).To(Equal("Start it."), kind)
		}
		w.Expect(w.watcher.idle).To(BeTrue())
		w.Expect(w.events.reasons).To(Equal([]string{"CreatedJobs", "RedisUnreachable"}))

		time.Sleep(lateStatus)
		w.Expect(w.reconcileAt(ctx, 25)).To(beResync())
		w.Expect(w.jobs(ctx)).To(HaveLen(3))
		w.Expect(w.condition(ctx, scaledjobv1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
		w.Expect(w.events.reasons[2:]).To(ConsistOf("CreatedJobs", "QueueConnected"))
	})
}

// With a short polling interval, a queue that can't be read is read again even sooner.
func TestReconcileUnknownDepthWithShortInterval(t *testing.T) {
	sj := scaledJob()
	sj.Spec.PollingIntervalSeconds = 2
	w := inParallel(t, sj)
	w.queues.SetError(emailQueue, failure.ErrClosed)

	w.Expect(w.reconcile(t.Context()).RequeueAfter).To(BeNumerically("<=", 1100*time.Millisecond))
}

func TestReconcileBusyEndpoint(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.queues.SetError(emailQueue, failure.ErrBusy)

	result := w.reconcile(t.Context())

	w.Expect(result.RequeueAfter).To(BeNumerically("~", busyRetry, busyRetry/5))
	w.Expect(result.Priority).To(HaveValue(Equal(enqueue.PriorityResync)), "others do not wait for it")
	status := w.scaledJob(t.Context()).Status
	w.Expect(apimeta.FindStatusCondition(status.Conditions, scaledjobv1.ConditionQueueConnected)).To(BeNil(),
		"calls of other ScaledJobs that wait for the server say nothing about this queue")
	w.Expect(apimeta.IsStatusConditionFalse(status.Conditions, scaledjobv1.ConditionReady)).To(BeTrue(),
		"and do not show that it can be read")
	w.Expect(status.QueueDepth).To(BeNil())
	w.Expect(w.scrape()).To(HaveKeyWithValue("scaledjob_reconcile_errors_total", 0.0))
}

func TestReconcileListFails(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.queues.SetDepth(emailQueue, 47)
	w.onList = func() error { return errAway }

	w.Expect(w.reconcileFails(t.Context())).To(MatchError(errAway))

	w.Expect(w.names()).To(BeEmpty())
	w.Expect(w.applied).To(BeZero())
	w.Expect(w.scrape()).To(HaveKeyWithValue("scaledjob_reconcile_errors_total", 1.0))
}

func TestReconcileWaitsForTheCache(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.queues.SetDepth(emailQueue, 25)
	w.hidden = func(*batchv1.Job) bool { return true }
	w.cacheIsAt("0")
	w.reconcile(t.Context())
	w.Expect(w.names()).To(HaveLen(3))

	for range 3 {
		w.Expect(w.reconcile(t.Context())).To(beRequeue(staleRetry, enqueue.PriorityNormal))
	}
	w.Expect(w.names()).To(HaveLen(3), "the Jobs exist although the cache does not show them")

	w.hidden = func(*batchv1.Job) bool { return false }
	w.Expect(w.reconcile(t.Context())).To(beResync())
	w.Expect(w.names()).To(HaveLen(3))
}

func TestReconcileSuspended(t *testing.T) {
	sj := scaledJob()
	sj.Spec.FailedJobsHistoryLimit = new(int32(0))
	w := inParallel(t, sj)
	w.reconcileAt(t.Context(), 20)
	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = true })
	w.queues.SetDepth(emailQueue, 47)
	w.finish(t.Context(), w.names()[0], batchv1.JobFailed)

	w.Expect(w.reconcile(t.Context())).To(beResync())

	w.Expect(w.names()).To(HaveLen(2))
	w.Expect(w.jobs(t.Context())).To(HaveLen(1), "finished Jobs are pruned, running ones are not")
	status := w.scaledJob(t.Context()).Status
	w.Expect(status.DesiredJobs).To(HaveValue(Equal(int32(5))), "the due Jobs are still reported")
	w.Expect(status.QueueDepth).To(HaveValue(Equal(int64(47))))
	ready := w.condition(t.Context(), scaledjobv1.ConditionReady)
	w.Expect(ready).To(beCondition(metav1.ConditionTrue, scaledjobv1.ReasonSuspended))
	w.Expect(w.watcher.idle).To(BeTrue())
}

func TestReconcileGoing(t *testing.T) {
	sj := scaledJob()
	sj.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	w := inParallel(t, sj)
	w.queues.SetDepth(emailQueue, 47)

	result, err := w.r.Reconcile(t.Context(), requestOf(emails))

	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(result).To(Equal(ctrl.Result{}), "its deletion triggers the next reconcile")
	w.Expect(w.names()).To(BeEmpty())
	w.Expect(w.applied).To(BeZero())
	w.Expect(w.watcher.forgotten).To(BeTrue())
}

func TestReconcileGone(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.queues.SetDepth(emailQueue, 47)
	w.onCreate = func(context.Context, *batchv1.Job, func() error) error { return errAway }
	_ = w.reconcileFails(t.Context())
	w.Expect(w.r.Gate.Newest("uid-1")).NotTo(BeZero())
	w.remove(emails)

	result, err := w.r.Reconcile(t.Context(), requestOf(emails))

	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(result).To(Equal(ctrl.Result{}))
	w.Expect(w.watcher.forgotten).To(BeTrue())
	w.Expect(w.r.Gate.Newest("uid-1")).To(BeZero())
	w.Expect(w.r.memories.all).To(BeEmpty())
	w.Expect(w.scrape()).To(BeEmpty())
}

// A recreated ScaledJob does not use the state of the deleted one.
func TestReconcileRecreated(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.reconcileAt(t.Context(), 20)
	first := w.names()
	w.r.Gate.Lost("uid-1", jobcontrol.Unanswered{Ordinal: 9, Since: time.Now()})
	again := scaledJob()
	again.UID = "uid-2"
	w.put(again)

	w.Expect(w.reconcile(t.Context())).To(beResync())

	w.Expect(w.names()).To(HaveLen(4), "the Jobs of the deleted ScaledJob do not count")
	w.Expect(first).NotTo(ContainElements(w.names()[2:]))
	w.Expect(w.scaledJob(t.Context()).Status.ActiveJobs).To(Equal(int32(2)))
	w.Expect(w.r.Gate.Newest("uid-1")).To(BeZero(), "the state of the deleted ScaledJob is removed")
	w.Expect(w.scrape()).To(HaveKeyWithValue("scaledjob_reconcile_total", 1.0))
}

func TestReconcileSubscribes(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.reconcile(t.Context())
	w.Expect(w.watcher.forgotten).To(BeFalse())

	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.QueueName = "letters" })
	w.reconcile(t.Context())
	w.Expect(w.watcher.keys).To(ConsistOf(HaveField("Name", "letters")))

	for _, c := range []struct {
		spec               scaledjobv1.NotificationMode
		forgotten, tracked bool
	}{
		{spec: scaledjobv1.NotificationsDisabled, forgotten: true},
		{spec: scaledjobv1.NotificationsTracking, tracked: true},
		{spec: "OfANewerVersion", forgotten: true, tracked: true},
		{spec: scaledjobv1.NotificationsEnabled},
		{spec: ""},
	} {
		w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.Notifications = c.spec })
		w.reconcile(t.Context())
		w.Expect(w.watcher.forgotten).To(Equal(c.forgotten), "%q", c.spec)
		w.Expect(w.watcher.tracked).To(Equal(c.tracked), "%q", c.spec)
	}
}

// The CRD rejects such an address, but the object may have been stored under an older CRD.
func TestReconcileUnusableAddress(t *testing.T) {
	sj := scaledJob()
	sj.Spec.RedisAddress = "redis"
	w := inParallel(t, sj)

	w.reconcile(t.Context())

	w.Expect(w.watcher.forgotten).To(BeTrue())
	ready := w.condition(t.Context(), scaledjobv1.ConditionReady)
	w.Expect(ready.Status).To(Equal(metav1.ConditionFalse))
	w.Expect(ready.Message).To(ContainSubstring("address of the Redis server"))
}

// The namespace of a ScaledJob may use too many servers, or the ScaledJob may use none.
func TestReconcileClaimsTheServer(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.queues.SetDepth(emailQueue, 30)
	w.servers.refusal = &failure.Error{Reason: failure.ReasonTooManyServers, Message: "too many", Err: errors.New("65 of 64")}
	w.reconcile(t.Context())
	w.Expect(w.jobs(t.Context())).To(BeEmpty(), "a queue was read on a server that was refused")
	w.Expect(w.watcher.forgotten).To(BeTrue())
	connected := w.condition(t.Context(), scaledjobv1.ConditionQueueConnected)
	w.Expect(connected).To(beCondition(metav1.ConditionFalse, scaledjobv1.ReasonTooManyServers))
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionNotificationsActive).Reason).
		To(Equal(scaledjobv1.ReasonUnreachable))

	w.servers.refusal = nil
	w.reconcile(t.Context())
	w.Expect(w.jobs(t.Context())).To(HaveLen(3))
	w.Expect(w.servers.claimed).To(HaveValue(Equal(auth.Endpoint{Address: address})))

	w.specErr = errors.New("of another form")
	w.reconcile(t.Context())
	w.Expect(w.servers.claimed).To(BeNil(), "it is unknown which server it uses")
	w.specErr = nil
	w.reconcile(t.Context())
	w.Expect(w.servers.claimed).NotTo(BeNil())

	w.remove(emails)
	_, err := w.r.Reconcile(t.Context(), requestOf(emails))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(w.servers.claimed).To(BeNil())
}

// The connection works with the previous password until it is re-established.
func TestReconcileReportsThatTheServerRejectsTheSecrets(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.reconcile(t.Context())
	w.servers.rejected = &failure.Error{Reason: failure.ReasonAuthFailed, Message: "Check the password.", Err: errors.New("WRONGPASS")}
	w.reconcile(t.Context())
	connected := w.condition(t.Context(), scaledjobv1.ConditionQueueConnected)
	w.Expect(connected).To(beCondition(metav1.ConditionTrue, scaledjobv1.ReasonSecretRejected))
	w.Expect(connected.Message).To(HaveSuffix("Check the password."))
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
	w.Expect(w.events.reasons).To(ContainElement(scaledjobv1.ReasonSecretRejected))
}

func TestReconcileReportsToTheMetrics(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.queues.SetDepth(emailQueue, 47)
	w.watcher.notified = time.Now().Add(-time.Second)
	w.watcher.state.LastEvent = time.Unix(1000, 0)
	w.reconcile(t.Context())
	w.watcher.missed = true
	w.reconcile(t.Context())
	w.queues.SetError(emailQueue, failure.ErrClosed)
	w.reconcile(t.Context())

	values := w.scrape()
	w.Expect(values["scaledjob_last_read_timestamp_seconds"]).To(BeNumerically("~", time.Now().Unix(), 60))
	w.Expect(values["scaledjob_queue_nonempty_since_timestamp_seconds"]).To(BeNumerically("~", time.Now().Unix(), 60))
	delete(values, "scaledjob_last_read_timestamp_seconds")
	w.Expect(values["scaledjob_mode"]).To(BeEquivalentTo(1), "one of the three")
	w.Expect(values["scaledjob_condition"]).To(BeNumerically(">=", 5), "each condition")
	delete(values, "scaledjob_mode")
	delete(values, "scaledjob_condition")
	delete(values, "scaledjob_queue_nonempty_since_timestamp_seconds")
	w.Expect(values).To(Equal(map[string]float64{
		"scaledjob_queue_depth":                  47,
		"scaledjob_desired_jobs":                 5,
		"scaledjob_active_jobs":                  5,
		"scaledjob_pending_jobs":                 5,
		"scaledjob_suspended_jobs":               0,
		"scaledjob_max_replicas":                 20,
		"scaledjob_suspend":                      0,
		"scaledjob_reconcile_total":              3,
		"scaledjob_reconcile_errors_total":       1,
		"scaledjob_jobs_finished_total":          0,
		"scaledjob_jobs_created_total":           5,
		"scaledjob_event_to_create_seconds":      5,
		"scaledjob_creation_pausing":             0,
		"scaledjob_notifications_active":         1,
		"scaledjob_notifications_missed_total":   1,
		"scaledjob_last_event_timestamp_seconds": 1000,
	}))
}

// A notification counts until the first complete reconcile after it.
func TestReactionIsMeasuredFromTheNotificationThatWasNotServed(t *testing.T) {
	w := inParallel(t, scaledJob())
	reactions := func() float64 { return w.scrape()["scaledjob_event_to_create_seconds"] }
	w.reconcileAt(t.Context(), 10)
	w.Expect(reactions()).To(BeZero(), "no notification caused this Job")

	w.watcher.notified = time.Now().Add(-time.Second)
	w.queues.SetError(emailQueue, failure.ErrClosed)
	w.reconcile(t.Context())
	w.reconcileAt(t.Context(), 20)
	w.Expect(reactions()).To(BeEquivalentTo(1), "the notification is kept while the depth is unknown")

	w.reconcileAt(t.Context(), 30)
	w.Expect(reactions()).To(BeEquivalentTo(1), "it counts only once")
	w.Expect(w.watcher.observed).To(Equal([]int64{10, 20, 30}), "an unknown depth is not compared")
}

func TestReconcileStatusWriteFails(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.queues.SetDepth(emailQueue, 20)
		w.onApply = func() error { return errAway }

		result := w.reconcile(ctx)
		w.Expect(result.RequeueAfter).To(BeNumerically("<=", retry.APIServer.After(1)),
			"the status write is retried separately, so that creates need not wait for it")
		w.Expect(w.names()).To(HaveLen(2))

		w.onApply = func() error { return nil }
		w.Expect(w.reconcileAfter(ctx, result.RequeueAfter)).To(beResync())
		w.Expect(w.names()).To(HaveLen(2))
		w.Expect(w.scaledJob(ctx).Status.LastScaleTime).NotTo(BeNil(),
			"the next reconcile reports what the failed one did")
	})
}

// BenchmarkReconcileAtRest measures a reconcile that finds nothing to do. With many ScaledJobs, most are of this kind.
func BenchmarkReconcileAtRest(b *testing.B) {
	w := newFakeEnv(b, scaledJob())
	w.reconcile(b.Context())
	settled := &scaledjob.ScaledJob{ScaledJob: *w.scaledJob(b.Context())}
	settled.Template.Hash = w.r.memories.of(scaledJob()).templateHash
	w.r.Cache = memoryCache{settled}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.r.Reconcile(b.Context(), requestOf(emails)); err != nil {
			b.Fatal(err)
		}
	}
	w.Expect(w.applied).To(Equal(1), "a benchmark that writes statuses measures something else")
}

// memoryCache is a cache with one ScaledJob and no Jobs.
type memoryCache struct{ sj *scaledjob.ScaledJob }

func (c memoryCache) ScaledJob(types.NamespacedName) (*scaledjob.ScaledJob, error) { return c.sj, nil }

func (memoryCache) Owned(string, types.UID) ([]*batchv1.Job, error) { return nil, nil }
