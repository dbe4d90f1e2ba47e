// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// largeSize is the length of a string in a template that the cache does not keep. There are largePlaces for such
// templates.
const (
	largeSize   = 20 << 10
	largePlaces = 4
)

func enlarge(sj *scaledjobv1.ScaledJob) *scaledjobv1.ScaledJob {
	sj.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args = []string{strings.Repeat("a", largeSize)}
	return sj
}

func enlargeAll(crowd []client.Object) []client.Object {
	for _, sj := range crowd {
		enlarge(sj.(*scaledjobv1.ScaledJob))
	}
	return crowd
}

// countReads counts the reads of the template.
func (w *world) countReads() *int {
	reads := new(int)
	w.onLiveGet = func(object client.Object) error {
		if _, is := object.(*scaledjob.ScaledJob); is {
			*reads++
		}
		return nil
	}
	return reads
}

// A large template is read from the API server for each reconcile that creates Jobs, and the Jobs are created one after
// the other.
func TestLargeTemplateIsReadBeforeTheCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enlarge(scaledJob()))
	reads, underWay := w.countReads(), 0
	w.onCreate = func(_ context.Context, job *batchv1.Job, send func() error) error {
		underWay++
		w.Expect(underWay).To(Equal(1))
		defer func() { underWay-- }()
		w.Expect(job.Spec.Template.Spec.Containers[0].Args[0]).To(HaveLen(largeSize))
		w.Expect(w.takeAll(enqueue.KindLarge)).To(BeNil(), "one of each namespace")
		return send()
	}
	w.queues.SetDepth(emailQueue, 30)

	w.reconcile(t.Context())

	w.Expect(w.jobs(t.Context())).To(HaveLen(3))
	w.Expect(*reads).To(Equal(1), "for the creates and the dry run together")
	giveBack := w.takeAll(enqueue.KindLarge)
	w.Expect(giveBack).NotTo(BeNil())
	giveBack()

	w.reconcile(t.Context())
	w.Expect(*reads).To(Equal(1), "nothing is to be created")
}

// A reconcile has one place at a time, also with a large template: a single worker creates Jobs, sends the dry run,
// deletes Jobs and writes the status.
func TestLargeTemplateTakesOneWorker(t *testing.T) {
	t.Parallel()
	sj := enlarge(scaledJob())
	sj.Spec.SuccessfulJobsHistoryLimit = new(int32(0))
	w := newWorld(t, sj)
	w.r.places = enqueue.NewPlaces(1, func(int, ...types.NamespacedName) {})
	checks := 0
	w.onDryRun = func() error { checks++; return nil }
	w.queues.SetDepth(emailQueue, 10)
	w.reconcile(t.Context())
	w.finishAt(t.Context(), w.names()[0], batchv1.JobComplete, time.Now().Add(-historyDelay))
	w.queues.SetDepth(emailQueue, 20)

	w.reconcile(t.Context())

	w.Expect(w.names()).To(HaveLen(3))
	w.Expect(checks).To(Equal(1))
	w.Expect(w.jobs(t.Context())).To(HaveLen(2), "the finished one is deleted")
	w.Expect(w.applied).To(BeNumerically(">", 0), "statuses")
}

// The cache lags: the API server has a newer template. No Job is made of either, and no Job of an earlier template is
// replaced.
func TestLargeTemplateThatChangedMeanwhileCreatesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enlarge(replacing()))
	w.queues.SetDepth(emailQueue, 30)
	w.reconcile(t.Context())
	w.edit(t.Context(), anotherImage)
	giveBack := w.takeAll(enqueue.KindDelete)
	w.reconcile(t.Context())
	giveBack()
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionTemplateValid).Status).To(BeEquivalentTo("True"))
	w.queues.SetDepth(emailQueue, 50)
	lags := true
	w.onLiveGet = func(object client.Object) error {
		if found, is := object.(*scaledjob.ScaledJob); is && lags {
			found.Template.Hash = "newer than that of the cache"
		}
		return nil
	}

	result := w.reconcile(t.Context())
	w.Expect(w.images(t.Context())).To(Equal(map[string]int{"worker:1": 3}))
	w.Expect(result.RequeueAfter).To(BeNumerically("<", 2*unreadableRetry), "should the event of the cache not come")

	lags = false
	w.reconcile(t.Context())
	w.Expect(w.images(t.Context())).To(HaveKeyWithValue("worker:2", 2))
}

func TestLargeTemplateThatCanNotBeReadIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enlarge(scaledJob()))
	errDown, reads := errors.New("down"), 0
	w.onLiveGet = func(object client.Object) error {
		if _, is := object.(*scaledjob.ScaledJob); is {
			reads++
			return errDown
		}
		return nil
	}
	w.queues.SetDepth(emailQueue, 30)
	w.Expect(w.reconcileFails(t.Context())).To(MatchError(errDown))
	w.Expect(w.jobs(t.Context())).To(BeEmpty())
	w.Expect(reads).To(Equal(1), "for the creates and the dry run together")
	w.Expect(w.takeAll(enqueue.KindLarge)).NotTo(BeNil())
}

// A large template waits like other requests: nothing is read meanwhile, the status shows it after a while, and a
// reconcile is requested when there is a place.
func TestLargeTemplateWaitsForItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, enlarge(scaledJob()))
		reads := w.countReads()
		var called []types.NamespacedName
		w.r.places = enqueue.NewPlaces(fleetWorkers, func(_ int, keys ...types.NamespacedName) { called = append(called, keys...) })
		giveBack := w.takeAll(enqueue.KindLarge)
		w.queues.SetDepth(emailQueue, 30)

		result := w.reconcile(t.Context())
		<-time.After(result.RequeueAfter)
		w.Expect(w.reconcile(t.Context())).To(beResync())

		w.Expect(w.jobs(t.Context())).To(BeEmpty())
		w.Expect(*reads).To(BeZero())
		w.Expect(w.condition(t.Context(), scaledjobv1.ConditionScalingLimited).Reason).To(Equal(scaledjobv1.ReasonCreatesWaiting))
		w.Expect(called).To(BeEmpty())

		giveBack()
		w.Expect(called).To(Equal([]types.NamespacedName{emails}))
		w.reconcile(t.Context())
		w.Expect(w.jobs(t.Context())).To(HaveLen(3))
	})
}

// The place is given back between the creates of a reconcile and its dry run, which must not use it up: the creates would
// wait for the next resync.
func TestDryRunDoesNotTakeThePlaceOfTheCreates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enlarge(scaledJob()))
	var called []types.NamespacedName
	w.r.places = enqueue.NewPlaces(fleetWorkers, func(_ int, keys ...types.NamespacedName) { called = append(called, keys...) })
	other := w.takeAll(enqueue.KindLarge)
	found, err := w.r.Cache.ScaledJob(emails)
	w.Expect(err).NotTo(HaveOccurred())
	asking := &target{pass: w.r.places.Begin(emails), template: found.Template}

	w.Expect(asking.place(enqueue.KindLarge)).To(BeNil())
	other()
	w.Expect(asking.place(enqueue.KindLarge)).To(BeNil())
	asking.pass.End(enqueue.EndedFully)

	w.Expect(called).To(ContainElement(emails))
}

// busyWithLarge returns how many ScaledJobs of these namespaces use their templates.
func (f *fleet) busyWithLarge(namespaces ...string) (busy int) {
	for _, namespace := range namespaces {
		busy += f.inFlight(creating, namespace) + f.inFlight(checking, namespace)
	}
	return busy
}

// All requests with large templates hang in a namespace with many of them. A push to a ScaledJob with a large template of
// another namespace gets its Job without any time passing. The control has no place for others.
func TestLargeTemplatesThatHangHoldUpNoOtherNamespace(t *testing.T) {
	t.Parallel()
	for places, want := range map[int]int{fleetWorkers: 1, 1: 0} {
		t.Run(fmt.Sprint(places, " places"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				crowd := enlargeAll(crowd(noisy, 40))
				f := newFleetWithPlaces(t, places, append(crowd, enlargeAll(crowdOf(calm))...)...)
				f.look(t.Context(), calm)
				settled()
				f.hangIn(noisy, creating, checking)
				f.attack(t.Context(), crowd)
				for pushed := range 3 {
					f.Expect(f.busyWithLarge(noisy)).To(Equal(1))

					f.push(t.Context(), calm, int64(10*(pushed+1)))
					settled()

					f.Expect(f.jobsOf(calm)).To(Equal(want*(pushed+1)), "Jobs, before time has passed")
					<-time.After(time.Second)
				}
			})
		})
	}
}

// severalNamespaces returns ScaledJobs in each of ten namespaces, and the names of these.
func severalNamespaces(size int) (all []client.Object, names []string) {
	for i := range 10 {
		names = append(names, fmt.Sprint("tenant-", i))
		all = append(all, crowd(names[i], size)...)
	}
	return all, names
}

// Creates hang in many namespaces. Few large templates are decoded at the same time, and the others show that they wait.
// The control has small templates, which all are.
func TestFewLargeTemplatesAreUsedAtTheSameTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		large         bool
		used, waiting int
	}{"large": {true, largePlaces, 10 - largePlaces}, "small": {false, 10, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				all, namespaces := severalNamespaces(1)
				if c.large {
					enlargeAll(all)
				}
				f := newFleet(t, all...)
				f.on(func(ctx context.Context, kind string, _ types.NamespacedName) error {
					if kind == creating {
						return hangs(ctx, time.Hour)
					}
					return nil
				})
				f.attack(t.Context(), all)
				f.Expect(f.busyWithLarge(namespaces...)).To(Equal(c.used))

				<-time.After(3 * time.Second)
				settled()
				f.Expect(f.busyWithLarge(namespaces...)).To(Equal(c.used))
				f.Expect(f.waiting(t.Context())).To(Equal(c.waiting))
			})
		})
	}
}

// Large templates hang for ever in more namespaces than there are places. Another namespace waits for a turn of each of
// them, or two, however many ScaledJobs they have.
func TestLargeTemplatesOfHangingNamespacesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, namespaces := severalNamespaces(3)
		f := newFleet(t, enlargeAll(append(slices.Clone(all), crowdOf(calm)...))...)
		f.on(func(ctx context.Context, kind string, of types.NamespacedName) error {
			if kind == creating && of.Namespace != calm.Namespace {
				return hangs(ctx, time.Hour)
			}
			return nil
		})
		f.attack(t.Context(), all)
		before := f.begun(creating)
		f.push(t.Context(), calm, 10)

		for deadline := time.Now().Add(10 * time.Minute); f.jobsOf(calm) == 0 && time.Now().Before(deadline); settled() {
			<-time.After(time.Second)
		}

		f.Expect(f.jobsOf(calm)).To(Equal(1))
		since := f.begun(creating)
		for _, namespace := range namespaces {
			f.Expect(since[namespace]-before[namespace]).To(BeNumerically("<=", 2), namespace)
		}
	})
}
