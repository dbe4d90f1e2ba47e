// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// Two operators without leader election work for the same ScaledJobs at once, as
// those of two versions do for a moment. The creates that one has under way are
// carried out only after the other has created what it takes to be missing. Then
// one of them ends in a storm.
func TestTwoOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	const messages = 300
	g := NewWithT(t)
	namespace, proxies := newNamespace(t), [2]*proxy{startProxy(t), startProxy(t)}
	ending := startOperator(t, proxies[0], []string{namespace})
	bursting := newScaledJob(t, namespace, "bursting", 1, messages)
	bursting.awaitSubscription(t)
	proxies[0].lag(longLag)
	late := proxies[0].holdCreates(firstCreates, 2)
	g.Expect(bursting.PushTogether(t.Context(), messages)).To(Succeed())
	g.Eventually(late.Held).WithTimeout(timeout).Should(BeNumerically(">=", createsAtOnce))
	staying := startOperator(t, proxies[1], []string{namespace})
	g.Eventually(bursting.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", messages))
	g.Expect(late.Release()).To(Succeed())

	proxies[1].lag(longLag)
	capped := newScaledJob(t, namespace, "capped", 1, saturation)
	worked := newScaledJob(t, namespace, "worked", 1, saturation)
	for _, s := range []*scaledJob{capped, worked} {
		s.awaitSubscriptions(t, 2)
	}
	var storm errgroup.Group
	storm.Go(func() error { return capped.storm(t.Context()) })
	goHome := putToWork(t, worked)
	g.Eventually(worked.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", 2*saturation))
	g.Expect(ending.Kill()).To(Succeed())
	g.Eventually(worked.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", 4*saturation))
	finished := goHome()
	g.Expect(storm.Wait()).To(Succeed())
	prove(t, staying, witness.Row{
		Fault:   "two operators at work at once in a burst and a storm, the creates of one are held up; it ends by kill -9",
		Promise: "no Job is created by both",
	},
		claim{scaledJob: bursting, jobs: messages},
		claim{scaledJob: capped, jobs: saturation},
		claim{scaledJob: worked, jobs: saturation + finished})
}

// A standby takes over in the midst of a burst, and its cache shows nothing of
// what the leader has done.
func TestBlindStandbyTakesOver(t *testing.T) {
	t.Parallel()
	const messages = 300
	g := NewWithT(t)
	namespace := newNamespace(t)
	election := elect(t, namespace)
	sighted, blind := startProxy(t), startProxy(t)
	leader := startOperator(t, sighted, []string{namespace}, election...)
	s := newScaledJob(t, namespace, "bursting", 1, messages)
	s.awaitSubscription(t) // only the leader does
	standby := startOperator(t, blind, []string{namespace}, election...)
	blind.jobs.Set(frozen)
	sighted.jobs.Set(frozen) // so that the leader gets no further than one reconcile

	g.Expect(s.PushTogether(t.Context(), messages)).To(Succeed())
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">", 0))
	first, err := holder(t.Context(), namespace)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(leader.Stop(t.Context())).To(Succeed())
	g.Expect(s.Witness.CatchUp(t.Context())).To(Succeed())
	made := s.Witness.Created()
	g.Expect(made).To(BeNumerically("<", messages), "Jobs at the change of leaders")

	g.Eventually(holder).WithArguments(t.Context(), namespace).WithTimeout(timeout).ShouldNot(Or(BeEmpty(), Equal(first)))
	awaitAttempts(t, standby)
	g.Expect(s.Witness.Created()).To(Equal(made), "Jobs while the standby is blind")
	blind.jobs.Set(0)
	prove(t, standby, witness.Row{
		Fault:   "the leader stops in a burst, and the cache of the standby shows nothing of it",
		Promise: "the standby creates nothing until its cache has caught up",
	}, claim{scaledJob: s, jobs: messages})
}

// shortLease are the flags of the installation guide for a fast change of leaders.
var shortLease = []string{
	"--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s",
}

// The leader is killed in a storm, with Jobs that finish all the time. Until the
// standby may lead its cache stands still, and then it is two seconds behind.
func TestLeaderKilledInStorm(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := newNamespace(t)
	election := elect(t, namespace)
	sighted, blind := startProxy(t), startProxy(t)
	leader := startOperator(t, sighted, []string{namespace}, election...)
	growing := newScaledJob(t, namespace, "growing", 40, 100)
	worked := newScaledJob(t, namespace, "worked", 1, saturation)
	growing.awaitSubscription(t) // only the leader subscribes
	worked.awaitSubscription(t)
	standby := startOperator(t, blind, []string{namespace}, election...)
	blind.jobs.Set(frozen)
	sighted.lag(longLag)

	var storm errgroup.Group
	storm.Go(func() error { return growing.storm(t.Context()) })
	goHome := putToWork(t, worked)
	g.Eventually(worked.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", 2*saturation))
	g.Expect(leader.Kill()).To(Succeed())
	finished := goHome()
	g.Expect(storm.Wait()).To(Succeed())
	g.Expect(worked.Witness.CatchUp(t.Context())).To(Succeed())
	made := worked.Witness.Created()

	awaitAttempts(t, standby)
	g.Expect(worked.Witness.Created()).To(Equal(made), "Jobs while the standby is blind")
	blind.jobs.Set(2 * time.Second)
	goHome = putToWork(t, worked)
	g.Eventually(worked.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", made+2*saturation))
	finished += goHome()
	blind.jobs.Set(longLag)
	prove(t, standby, witness.Row{
		Fault:   "kill -9 of the leader in a storm, the cache of the standby stands still, and is 2 s behind then",
		Promise: "the standby creates nothing until its cache has caught up",
	},
		claim{scaledJob: growing, jobs: stormPushes / 40},
		claim{scaledJob: worked, jobs: saturation + finished})
}

// Creates of a leader that was killed are held up for longer than its Lease lasts, and the next leader has used their
// names. While its Jobs exist, they fail. After these were deleted, each creates a surplus Job: the known limit, which a
// short Lease makes wider.
func TestCreatesHeldLongerThanAShortLease(t *testing.T) {
	skip.UnderShort(t, "waits for leases to expire; TestCreatesCarriedOutAfterTheNextOperator holds creates up too")
	t.Parallel()
	for name, deleted := range map[string]bool{"the Jobs stay": false, "the Jobs are deleted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const messages = 20
			g := NewWithT(t)
			namespace, former := newNamespace(t), startProxy(t)
			election := append(elect(t, namespace), shortLease...)
			leader := startOperator(t, former, []string{namespace}, election...)
			s := newScaledJob(t, namespace, "held", 1, messages)
			s.awaitSubscription(t) // only the leader does
			standby := startOperator(t, startProxy(t), []string{namespace}, election...)
			held := former.holdCreates(0, 1)
			g.Expect(s.PushTogether(t.Context(), messages)).To(Succeed())
			g.Eventually(held.Held).WithTimeout(timeout).Should(BeNumerically(">", 0))
			g.Expect(leader.Kill()).To(Succeed())
			g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(Equal(messages))
			late := held.Held()
			if !deleted {
				g.Expect(held.Release()).To(Succeed())
				prove(t, standby, witness.Row{
					Fault:   "kill -9 of the leader with creates under way, which are carried out after a Lease of 5 s has expired",
					Promise: "the next leader takes their names first, so that they fail",
				}, claim{scaledJob: s, jobs: messages})
				return
			}
			g.Expect(s.Redis.Del(t.Context(), s.Queue).Err()).To(Succeed())
			s.awaitReconciles(t, standby, restReconciles) // None decides on the messages any more.
			g.Expect(api.DeleteAllOf(t.Context(), &batchv1.Job{}, client.InNamespace(namespace),
				client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
			g.Expect(held.Release()).To(Succeed())
			g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(Equal(messages + late))
		})
	}
}

// elect lets operators elect a leader of their own for this namespace, by the
// rights that are shipped, and returns the flags for it.
func elect(t *testing.T, namespace string) (flags []string) {
	t.Helper()
	g := NewWithT(t)
	shipped := client.ObjectKey{Namespace: operator.Namespace, Name: operator.ServiceAccount}
	var role rbacv1.Role
	g.Expect(api.Get(t.Context(), shipped, &role)).To(Succeed())
	var binding rbacv1.RoleBinding
	g.Expect(api.Get(t.Context(), shipped, &binding)).To(Succeed())
	here := metav1.ObjectMeta{Namespace: namespace, Name: shipped.Name}
	role.ObjectMeta, binding.ObjectMeta = here, here
	g.Expect(api.Create(t.Context(), &role)).To(Succeed())
	g.Expect(api.Create(t.Context(), &binding)).To(Succeed())
	return []string{"--leader-elect", "--leader-election-namespace=" + namespace}
}

// awaitAttempts waits until an operator has become the leader, and has tried to
// do something about its ScaledJobs again and again.
func awaitAttempts(t *testing.T, by *operator.Operator) {
	t.Helper()
	NewWithT(t).Eventually(metric).
		WithArguments(t.Context(), by, "controller_runtime_reconcile_total", `controller="scaledjob"`).
		WithTimeout(timeout).Should(BeNumerically(">", 10))
}

// holder is who leads, and empty while nobody does.
func holder(ctx context.Context, namespace string) (string, error) {
	return operator.Leader(ctx, api, namespace, operator.DefaultLease)
}
