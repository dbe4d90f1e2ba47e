// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// The namespace in which requests hang, and the only ScaledJob of another one.
const busyTenant = "busy"

var otherTenant = types.NamespacedName{Namespace: "other", Name: "other-0"}

// busyScaledJobs is the number of ScaledJobs in the namespace in which requests hang: more than there are workers.
func busyScaledJobs() int {
	if testing.Short() {
		return 40
	}
	return 100
}

// hangIn makes the requests of these kinds hang in a namespace, until the operator gives up.
func (f *manyScaledJobs) hangIn(namespace string, kinds ...string) {
	f.on(func(ctx context.Context, kind string, of types.NamespacedName) error {
		if of.Namespace == namespace && slices.Contains(kinds, kind) {
			return hangs(ctx, time.Hour)
		}
		return nil
	})
}

// fillQueues makes all of these ScaledJobs want to create Jobs.
func (f *manyScaledJobs) fillQueues(ctx context.Context, all []client.Object, depth int64) {
	for _, sj := range all {
		f.push(ctx, client.ObjectKeyFromObject(sj), depth)
	}
	settled()
}

// lookAt asks for a reconcile of all of these ScaledJobs.
func (f *manyScaledJobs) lookAt(ctx context.Context, all []client.Object) {
	for _, sj := range all {
		f.look(ctx, client.ObjectKeyFromObject(sj))
	}
	settled()
}

// withFinishedJobs returns the ScaledJobs, each with a Job to delete.
func withFinishedJobs(busy []client.Object) []client.Object {
	all := slices.Clone(busy)
	for _, object := range busy {
		sj := object.(*scaledjobv1.ScaledJob)
		sj.Spec.SuccessfulJobsHistoryLimit = new(int32(0))
		job := jobs.Build(sj, "template", 1, 0)
		job.UID = types.UID("uid of " + job.Name)
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		all = append(all, job)
	}
	return all
}

// Requests hang in one namespace, at first and after a while. A push in another namespace gets its Job without any time
// passing. Statuses hang alone, because none is written while the others hang.
func TestHangingRequestsOfANamespaceHoldUpNobodyElse(t *testing.T) {
	bubble.Each(t, map[string][]string{
		"dry runs, deletes and creates": {checking, deleting, creating}, "statuses": {applying},
	}, func(t *testing.T, _ Gomega, kinds []string) {
		busy := scaledJobsIn(busyTenant, busyScaledJobs())
		f := newManyScaledJobs(t, workersAtOnce, append(withFinishedJobs(busy), onlyScaledJob(otherTenant)...)...)
		f.look(t.Context(), otherTenant)
		settled()
		f.hangIn(busyTenant, kinds...)
		f.fillQueues(t.Context(), busy, 20)
		hung := map[string]int{}
		for pushed := range 3 {
			time.Sleep(3 * time.Second)
			hanging := 0
			for _, kind := range kinds {
				inFlight := f.inFlight(kind, busyTenant)
				hanging += inFlight
				hung[kind] += inFlight
			}
			f.Expect(hanging).To(And(BeNumerically(">", 0), BeNumerically("<=", workersAtOnce/2)))
			f.Expect(f.scrape()["scaledjob_reconciles_parked"]).To(BeNumerically(">", 0))

			f.push(t.Context(), otherTenant, int64(10*(pushed+1)))
			settled()

			f.Expect(f.jobsOf(otherTenant)).To(Equal(pushed+1), "Jobs, before time has passed")
		}
		f.Expect(hung).To(HaveEach(BeNumerically(">", 0)), "each kind of request was held up")
	})
}

// Each of many ScaledJobs of a namespace may have a whole batch of creates under way, until one of them times out.
func TestCreatesOfANamespaceAreSentOneAtATimeAfterATimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		busy := scaledJobsIn(busyTenant, busyScaledJobs())
		f := newManyScaledJobs(t, workersAtOnce, append(busy, onlyScaledJob(otherTenant)...)...)
		f.fillQueues(t.Context(), append(busy, onlyScaledJob(otherTenant)...), 10)
		time.Sleep(time.Minute) // All have a Job of their template.
		f.hangIn(busyTenant, creating)
		f.fillQueues(t.Context(), busy, 100)
		f.Expect(f.requestsInFlight(creating, busyTenant)).To(Equal(jobcontrol.RequestsEach), "before one has timed out")
		for range 20 {
			time.Sleep(createTimeout + time.Second)
			f.Expect(f.requestsInFlight(creating, busyTenant)).To(And(BeNumerically(">", 0), BeNumerically("<=", workersAtOnce)))
		}

		f.hangIn(otherTenant.Namespace, creating)
		f.push(t.Context(), otherTenant, 200)
		settled()
		f.Expect(f.requestsInFlight(creating, otherTenant.Namespace)).To(Equal(jobcontrol.AtOnce), "creates of another namespace")

		f.hangIn("nobody's", creating)
		time.Sleep(5 * time.Minute)
		for _, sj := range busy {
			f.Expect(f.jobsOf(client.ObjectKeyFromObject(sj))).To(Equal(10), "Jobs of %s", sj.GetName())
		}
		f.hangIn(busyTenant, creating)
		f.push(t.Context(), client.ObjectKeyFromObject(busy[0]), 200)
		settled()
		f.Expect(f.requestsInFlight(creating, busyTenant)).To(BeNumerically(">", 1), "after one was fast")
	})
}

// onlyScaledJob returns the ScaledJob of this name as the only one of its namespace.
func onlyScaledJob(key types.NamespacedName) []client.Object { return scaledJobsIn(key.Namespace, 1) }

// The negative control: without shares, hanging dry runs take all workers, so that the test above can fail.
func TestWithoutSharesHangingDryRunsHoldUpOthers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		busy := scaledJobsIn(busyTenant, busyScaledJobs())
		f := newManyScaledJobs(t, 100*workersAtOnce, append(busy, onlyScaledJob(otherTenant)...)...)
		f.look(t.Context(), otherTenant)
		settled()
		f.hangIn(busyTenant, checking)
		f.lookAt(t.Context(), busy)
		f.Expect(f.inFlight(checking, busyTenant)).To(Equal(workersAtOnce))

		f.push(t.Context(), otherTenant, 10)
		settled()

		f.Expect(f.jobsOf(otherTenant)).To(BeZero())
	})
}

// ScaledJobs that come and go while their dry runs wait leave nothing behind.
func TestDryRunsOfScaledJobsThatGoAreForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		busy := scaledJobsIn(busyTenant, busyScaledJobs())
		f := newManyScaledJobs(t, workersAtOnce, append(busy, onlyScaledJob(otherTenant)...)...)
		f.hangIn(busyTenant, checking)
		f.lookAt(t.Context(), busy)
		for _, sj := range busy {
			f.remove(client.ObjectKeyFromObject(sj))
			f.look(t.Context(), client.ObjectKeyFromObject(sj))
		}
		time.Sleep(reconcileTimeout)

		f.Expect(f.inFlight(checking, busyTenant)).To(BeZero())
		sent := f.ended(busyTenant)
		f.look(t.Context(), otherTenant)
		settled()
		f.Expect(f.ended(otherTenant.Namespace)).To(BeNumerically(">=", 2), "a dry run and a status")
		f.Expect(f.ended(busyTenant)).To(Equal(sent), "nothing is sent for those that are gone")
	})
}
