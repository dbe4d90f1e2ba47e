// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/retry"
)

// The namespace in which requests hang, and the only ScaledJob of another one.
const noisy = "noisy"

var calm = types.NamespacedName{Namespace: "calm", Name: "calm-0"}

// crowdSize is the number of ScaledJobs in the namespace in which requests hang: more than there are workers.
func crowdSize() int {
	if testing.Short() {
		return 40
	}
	return 100
}

// hangIn makes the requests of these kinds hang in a namespace, until the operator gives up.
func (f *fleet) hangIn(namespace string, kinds ...string) {
	f.on(func(ctx context.Context, kind string, of types.NamespacedName) error {
		if of.Namespace == namespace && slices.Contains(kinds, kind) {
			return hangs(ctx, time.Hour)
		}
		return nil
	})
}

// attack makes all ScaledJobs of the noisy namespace want to create Jobs.
func (f *fleet) attack(ctx context.Context, crowd []client.Object) {
	for _, sj := range crowd {
		f.push(ctx, client.ObjectKeyFromObject(sj), 20)
	}
	settled()
}

// withFinishedJobs returns the ScaledJobs, each with a Job to delete.
func withFinishedJobs(crowd []client.Object) []client.Object {
	all := slices.Clone(crowd)
	for _, object := range crowd {
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
// passing.
func TestHangingRequestsOfANamespaceHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kinds []string
		share map[string]int // at most
	}{
		"dry runs": {[]string{checking}, map[string]int{checking: fleetWorkers * 3 / 8}},
		"deletes":  {[]string{deleting}, map[string]int{deleting: fleetWorkers / 4}},
		"statuses": {[]string{applying}, map[string]int{applying: fleetWorkers / 2}},
		"creates":  {[]string{creating}, map[string]int{creating: fleetWorkers * 3 / 4}},
		"all": {[]string{checking, deleting, applying, creating}, map[string]int{
			checking: fleetWorkers * 3 / 8, deleting: fleetWorkers / 4, applying: fleetWorkers / 2, creating: fleetWorkers * 3 / 4,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				crowd := crowd(noisy, crowdSize())
				f := newFleet(t, append(withFinishedJobs(crowd), crowdOf(calm)...)...)
				f.look(t.Context(), calm)
				settled()
				f.hangIn(noisy, c.kinds...)
				f.attack(t.Context(), crowd)
				for pushed := range 3 {
					// Statuses leave the API server to the creates for less than a second.
					time.Sleep(9 * time.Second)
					total := 0
					for _, kind := range c.kinds {
						f.Expect(f.inFlight(kind, noisy)).To(BeNumerically("<=", c.share[kind]), kind)
						total += f.inFlight(kind, noisy)
					}
					f.Expect(total).To(And(BeNumerically(">", 0), BeNumerically("<=", fleetWorkers*7/8)))

					f.push(t.Context(), calm, int64(10*(pushed+1)))
					settled()

					f.Expect(f.jobsOf(calm)).To(Equal(pushed+1), "Jobs, before time has passed")
				}
			})
		})
	}
}

// Each of many ScaledJobs of a namespace may have a whole batch of creates under way, until one of them times out.
func TestCreatesOfANamespaceAreSentOneAtATimeAfterATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		crowd := crowd(noisy, crowdSize())
		f := newFleet(t, append(crowd, crowdOf(calm)...)...)
		for _, sj := range append(crowd, crowdOf(calm)...) {
			f.push(t.Context(), client.ObjectKeyFromObject(sj), 10)
		}
		time.Sleep(time.Minute) // All have a Job of their template.
		f.hangIn(noisy, creating)
		for _, sj := range crowd {
			f.push(t.Context(), client.ObjectKeyFromObject(sj), 100)
		}
		settled()
		f.Expect(f.requestsInFlight(creating, noisy)).To(BeNumerically(">", fleetWorkers), "before one has timed out")
		for range 20 {
			time.Sleep(createTimeout + time.Second)
			f.Expect(f.requestsInFlight(creating, noisy)).To(And(BeNumerically(">", 0), BeNumerically("<=", fleetWorkers)))
		}

		f.hangIn(calm.Namespace, creating)
		f.push(t.Context(), calm, 200)
		settled()
		f.Expect(f.requestsInFlight(creating, calm.Namespace)).To(Equal(jobcontrol.AtOnce), "creates of another namespace")

		f.hangIn("nobody's", creating)
		time.Sleep(5 * time.Minute)
		for _, sj := range crowd {
			f.Expect(f.jobsOf(client.ObjectKeyFromObject(sj))).To(Equal(10), "Jobs of %s", sj.GetName())
		}
		f.hangIn(noisy, creating)
		f.push(t.Context(), client.ObjectKeyFromObject(crowd[0]), 200)
		settled()
		f.Expect(f.requestsInFlight(creating, noisy)).To(BeNumerically(">", 1), "after one was fast")
	})
}

// crowdOf returns the ScaledJob of this name as the only one of its namespace.
func crowdOf(key types.NamespacedName) []client.Object { return crowd(key.Namespace, 1) }

// The negative control: with places for all, hanging dry runs take all workers, so that the test above can fail.
func TestWithoutSharesHangingDryRunsHoldUpOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		crowd := crowd(noisy, crowdSize())
		f := newFleetWithPlaces(t, 100*fleetWorkers, append(crowd, crowdOf(calm)...)...)
		f.look(t.Context(), calm)
		settled()
		f.hangIn(noisy, checking)
		for _, sj := range crowd {
			f.look(t.Context(), client.ObjectKeyFromObject(sj))
		}
		settled()
		f.Expect(f.inFlight(checking, noisy)).To(Equal(fleetWorkers))

		f.push(t.Context(), calm, 10)
		settled()

		f.Expect(f.jobsOf(calm)).To(BeZero())
	})
}

// A create that is refused once is tried again after its own delay, whatever others wait for, in the same namespace too.
func TestARefusedCreateWaitsForNobodyElse(t *testing.T) {
	t.Parallel()
	neighbour := types.NamespacedName{Namespace: noisy, Name: noisy + "-0"}
	for name, victim := range map[string]types.NamespacedName{"of another namespace": calm, "of the same": neighbour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				crowd := crowd(noisy, 80)
				f := newFleet(t, append(crowd, crowdOf(calm)...)...)
				var refused atomic.Bool
				f.on(func(ctx context.Context, kind string, of types.NamespacedName) error {
					switch {
					case kind == creating && of.Namespace == noisy && of != victim:
						return hangs(ctx, 10*time.Second)
					case kind == creating && of == victim && !refused.Swap(true):
						return errOverload
					}
					return nil
				})
				f.look(t.Context(), victim)
				f.attack(t.Context(), slices.DeleteFunc(crowd, func(sj client.Object) bool {
					return client.ObjectKeyFromObject(sj) == victim
				}))
				// All creates have timed out once. A resync, which would try again at once, comes at a multiple of 100 ms.
				time.Sleep(30*time.Second + 10*time.Millisecond)
				f.Expect(f.waiting(t.Context())).To(BeNumerically(">", 20), "ScaledJobs whose status shows that they wait")

				f.push(t.Context(), victim, 10)
				settled()
				f.Expect(refused.Load()).To(BeTrue())
				f.Expect(f.jobsOf(victim)).To(BeZero())
				time.Sleep(retry.APIServer.First)
				settled()

				f.Expect(f.jobsOf(victim)).To(Equal(1))
			})
		})
	}
}

// waiting returns how many ScaledJobs show that their creates wait.
func (f *fleet) waiting(ctx context.Context) (count int) {
	var all scaledjobv1.ScaledJobList
	f.Expect(f.api.List(ctx, &all)).To(Succeed())
	for _, sj := range all.Items {
		limited := apimeta.FindStatusCondition(sj.Status.Conditions, scaledjobv1.ConditionScalingLimited)
		if limited != nil && limited.Reason == scaledjobv1.ReasonCreatesWaiting {
			count++
		}
	}
	return count
}

// Ten ScaledJobs have one Job due each, and their webhook is slow. They get places in the order in which they came.
func TestCreatesGetPlacesInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		crowd := crowd(noisy, 60)
		f := newFleet(t, crowd...)
		f.on(func(ctx context.Context, kind string, _ types.NamespacedName) error {
			if kind == creating {
				return hangs(ctx, 3*time.Second)
			}
			return nil
		})
		for _, sj := range crowd {
			f.push(t.Context(), client.ObjectKeyFromObject(sj), 1)
			settled()
		}
		for f.ended(noisy) == 0 || f.inFlight(creating, noisy) > 0 {
			time.Sleep(time.Second)
			settled()
		}

		var order []types.NamespacedName
		for _, each := range f.log {
			if each.kind == creating && !each.ended {
				order = append(order, each.of)
			}
		}
		f.Expect(order).To(HaveLen(60), "one create each")
		for i, of := range order {
			began := slices.IndexFunc(crowd, func(sj client.Object) bool { return client.ObjectKeyFromObject(sj) == of })
			f.Expect(began).To(BeNumerically("~", i, fleetWorkers/2), "the places of one turn end together")
		}
	})
}

// All ScaledJobs of a namespace are edited, and the dry runs of their templates are slow. A rollout goes first, in
// another namespace without any time passing, and in the same at the next turn.
func TestDryRunsForRolloutsGoFirst(t *testing.T) {
	t.Parallel()
	neighbour := types.NamespacedName{Namespace: noisy, Name: noisy + "-0"}
	for name, victim := range map[string]types.NamespacedName{"of another namespace": calm, "of the same": neighbour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				crowd := append(crowd(noisy, crowdSize()), crowdOf(calm)...)
				for _, object := range crowd {
					if client.ObjectKeyFromObject(object) == victim {
						object.(*scaledjobv1.ScaledJob).Spec.Rollout.Strategy = scaledjobv1.RolloutImmediate
					}
				}
				f := newFleet(t, crowd...)
				f.push(t.Context(), victim, 10)
				settled()
				f.Expect(f.jobsOf(victim)).To(Equal(1))
				f.hangIn(noisy, checking)
				for _, sj := range crowd {
					f.look(t.Context(), client.ObjectKeyFromObject(sj))
				}
				settled()

				f.editTemplate(t.Context(), victim)
				f.look(t.Context(), victim)
				settled()

				f.mu.Lock()
				defer f.mu.Unlock()
				last := f.log[len(f.log)-1]
				for _, each := range slices.Backward(f.log) {
					if last = each; each.kind == checking {
						break
					}
				}
				f.Expect(last.of).To(Equal(victim), "the last dry run that has begun")
			})
		})
	}
}

// editTemplate changes the template of a ScaledJob.
func (f *fleet) editTemplate(ctx context.Context, of types.NamespacedName) {
	var sj scaledjobv1.ScaledJob
	f.Expect(f.api.Get(ctx, of, &sj)).To(Succeed())
	sj.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = "worker:2"
	sj.Generation++
	f.Expect(f.api.Update(ctx, &sj)).To(Succeed())
}

// ScaledJobs that come and go while their dry runs wait leave nothing behind.
func TestDryRunsOfScaledJobsThatGoAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		crowd := crowd(noisy, crowdSize())
		f := newFleet(t, append(crowd, crowdOf(calm)...)...)
		f.hangIn(noisy, checking)
		for _, sj := range crowd {
			f.look(t.Context(), client.ObjectKeyFromObject(sj))
		}
		settled()
		for _, sj := range crowd {
			f.Expect(f.api.Delete(t.Context(), sj.DeepCopyObject().(client.Object))).To(Succeed())
			f.look(t.Context(), client.ObjectKeyFromObject(sj))
		}
		time.Sleep(reconcileTimeout)

		f.Expect(f.inFlight(checking, noisy)).To(BeZero())
		sent := f.ended(noisy)
		f.look(t.Context(), calm)
		settled()
		f.Expect(f.ended(calm.Namespace)).To(BeNumerically(">=", 2), "a dry run and a status")
		f.Expect(f.ended(noisy)).To(Equal(sent), "nothing is sent for those that are gone")
		for i := range fleetWorkers / 4 {
			pass := f.r.places.Begin(types.NamespacedName{Namespace: "new", Name: fmt.Sprint(i)})
			f.Expect(pass.Take(enqueue.KindDryRun)).NotTo(BeNil(), "place %d", i)
		}
	})
}

// While the Jobs of previous leaders are listed, every ScaledJob is reconciled once, and again when the list is complete.
func TestNobodySpinsDuringTheTakeover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		crowd := crowd(noisy, crowdSize())
		f := newFleet(t, crowd...)
		complete := make(chan struct{})
		f.onTakeover = func(context.Context) error { <-complete; return nil }
		var reconciles atomic.Int32
		f.r.Leads = func() bool { reconciles.Add(1); return true }
		for _, sj := range crowd {
			f.look(t.Context(), client.ObjectKeyFromObject(sj))
		}
		time.Sleep(10 * time.Second)
		f.Expect(reconciles.Load()).To(BeEquivalentTo(crowdSize()), "one each")
		f.Expect(f.ended(noisy)).To(BeZero())

		close(complete)
		settled()

		f.Expect(reconciles.Load()).To(BeNumerically(">=", 2*crowdSize()-1))
		time.Sleep(time.Second)
		f.Expect(f.ended(noisy)).To(BeNumerically(">=", 2*crowdSize()), "a dry run and a status each")
	})
}
