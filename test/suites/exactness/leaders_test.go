// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// Two operators without leader election work for the same ScaledJobs at once, as those of two versions do for a moment.
// The creates that one has under way are carried out only after the other has created what it takes to be missing. Then
// one of them ends in a storm.
func TestTwoOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	const messages = 300
	g := NewWithT(t)
	namespace, proxies := newNamespace(t), [2]*proxy{startProxy(t), startProxy(t)}
	ending := startOperator(t, proxies[0], []string{namespace})
	bursting := newScaledJob(t, namespace, "bursting", 1, messages)
	bursting.AwaitSubscription()
	proxies[0].lag(longLag)
	late := proxies[0].holdCreates(firstCreates, 2)
	bursting.PushTogether(messages)
	g.Eventually(late.Held).WithTimeout(timeout).Should(BeNumerically(">=", createsAtOnce))
	staying := startOperator(t, proxies[1], []string{namespace})
	g.Eventually(bursting.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">=", messages))
	g.Expect(late.Release()).To(Succeed())

	proxies[1].lag(longLag)
	capped := newScaledJob(t, namespace, "capped", 1, saturation)
	worked := newScaledJob(t, namespace, "worked", 1, saturation)
	for _, s := range []*scaledJob{capped, worked} {
		s.awaitSubscriptions(t, 2)
	}
	var storm errgroup.Group
	storm.Go(func() error { return capped.storm(t.Context()) })
	stopWork := putToWork(t, worked)
	g.Eventually(worked.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">=", 2*saturation))
	g.Expect(ending.Kill()).To(Succeed())
	g.Eventually(worked.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">=", 4*saturation))
	finished := stopWork()
	g.Expect(storm.Wait()).To(Succeed())
	requireExactly(t, staying, jobwatch.Row{
		Fault:   "two operators at work at once in a burst and a storm, the creates of one are held up; it ends by kill -9",
		Promise: "no Job is created by both",
	},
		want{scaledJob: bursting, jobs: messages},
		want{scaledJob: capped, jobs: saturation},
		want{scaledJob: worked, jobs: saturation + finished})
}

// A standby takes over in the midst of a burst, and its cache shows nothing of what the leader has done.
func TestBlindStandbyTakesOver(t *testing.T) {
	t.Parallel()
	const messages = 300
	g := NewWithT(t)
	namespace := newNamespace(t)
	election := elect(t, namespace)
	sighted, blind := startProxy(t), startProxy(t)
	leader := startOperator(t, sighted, []string{namespace}, election...)
	s := newScaledJob(t, namespace, "bursting", 1, messages)
	s.AwaitSubscription() // only the leader does
	standby := startOperator(t, blind, []string{namespace}, election...)
	blind.jobs.Set(frozen)
	sighted.jobs.Set(frozen) // so that the leader gets no further than one reconcile

	s.PushTogether(messages)
	g.Eventually(s.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">", 0))
	first := must.Get(holder(t.Context(), namespace))(g)
	g.Expect(leader.Stop(t.Context())).To(Succeed())
	g.Expect(s.Jobs.Sync(t.Context())).To(Succeed())
	made := s.Jobs.Created()
	g.Expect(made).To(BeNumerically("<", messages), "Jobs at the change of leaders")

	g.Eventually(holder).WithArguments(t.Context(), namespace).WithTimeout(timeout).ShouldNot(Or(BeEmpty(), Equal(first)))
	awaitAttempts(t, standby)
	g.Expect(s.Jobs.Created()).To(Equal(made), "Jobs while the standby is blind")
	blind.jobs.Set(0)
	requireExactly(t, standby, jobwatch.Row{
		Fault:   "the leader stops in a burst, and the cache of the standby shows nothing of it",
		Promise: "the standby creates nothing until its cache has caught up",
	}, want{scaledJob: s, jobs: messages})
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
	growing.AwaitSubscription() // only the leader subscribes
	worked.AwaitSubscription()
	standby := startOperator(t, blind, []string{namespace}, election...)
	blind.jobs.Set(frozen)
	sighted.lag(longLag)

	var storm errgroup.Group
	storm.Go(func() error { return growing.storm(t.Context()) })
	stopWork := putToWork(t, worked)
	g.Eventually(worked.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">=", 2*saturation))
	g.Expect(leader.Kill()).To(Succeed())
	finished := stopWork()
	g.Expect(storm.Wait()).To(Succeed())
	g.Expect(worked.Jobs.Sync(t.Context())).To(Succeed())
	made := worked.Jobs.Created()

	awaitAttempts(t, standby)
	g.Expect(worked.Jobs.Created()).To(Equal(made), "Jobs while the standby is blind")
	blind.jobs.Set(2 * time.Second)
	stopWork = putToWork(t, worked)
	g.Eventually(worked.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">=", made+2*saturation))
	finished += stopWork()
	blind.jobs.Set(longLag)
	requireExactly(t, standby, jobwatch.Row{
		Fault:   "kill -9 of the leader in a storm, the cache of the standby stands still, and is 2 s behind then",
		Promise: "the standby creates nothing until its cache has caught up",
	},
		want{scaledJob: growing, jobs: stormPushes / 40},
		want{scaledJob: worked, jobs: saturation + finished})
}

// Creates of a leader that was killed are held up for longer than its Lease lasts, and the next leader has used their
// names. While its Jobs exist, they fail. After these were deleted, each creates a surplus Job: the known limit, which
// a short Lease makes wider.
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
			s.AwaitSubscription() // only the leader does
			standby := startOperator(t, startProxy(t), []string{namespace}, election...)
			held := former.holdCreates(0, 1)
			s.PushTogether(messages)
			g.Eventually(held.Held).WithTimeout(timeout).Should(BeNumerically(">", 0))
			g.Expect(leader.Kill()).To(Succeed())
			g.Eventually(s.Jobs.Created).WithTimeout(timeout).Should(Equal(messages))
			late := held.Held()
			if !deleted {
				g.Expect(held.Release()).To(Succeed())
				requireExactly(t, standby, jobwatch.Row{
					Fault:   "kill -9 of the leader with creates under way, which are carried out after a Lease of 5 s has expired",
					Promise: "the next leader takes their names first, so that they fail",
				}, want{scaledJob: s, jobs: messages})
				return
			}
			g.Expect(s.Redis.Del(t.Context(), s.Queue).Err()).To(Succeed())
			s.awaitReconciles(standby, restReconciles) // None decides on the messages any more.
			g.Expect(api.DeleteAllOf(t.Context(), &batchv1.Job{}, client.InNamespace(namespace),
				client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
			g.Expect(held.Release()).To(Succeed())
			g.Eventually(s.Jobs.Created).WithTimeout(timeout).Should(Equal(messages + late))
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

// The leader stands still for longer than its lease in the midst of a burst, as in a paused virtual machine. The next
// leader creates the rest, the workers do all there is to do, and the Jobs are pruned, so that their names are free.
// Then the first one goes on.
func TestLeaderStandsStill(t *testing.T) {
	skip.UnderShort(t, "waits for leases to expire; TestLeaderKilledInStorm tests the change of leaders")
	t.Parallel()
	const scaledJobs, messages = 4, 60
	g := NewWithT(t)
	namespace := newNamespace(t)
	election := elect(t, namespace)
	slow := startProxy(t)
	slow.slowCreates(namespace, 300*time.Millisecond)
	leader := startOperator(t, slow, []string{namespace}, election...)
	none := int32(0)
	var all []*scaledJob
	for i := range scaledJobs {
		s := newScaledJob(t, namespace, fmt.Sprintf("s-%d", i), 1, messages, func(spec *scaledjobv1.ScaledJobSpec) {
			spec.SuccessfulJobsHistoryLimit = &none
		})
		s.AwaitSubscription()
		all = append(all, s)
	}
	standby := startOperator(t, startProxy(t), []string{namespace}, election...)
	first := must.Get(holder(t.Context(), namespace))(g)
	for _, s := range all {
		s.PushTogether(messages)
	}
	g.Eventually(all[scaledJobs-1].Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">=", 20))
	g.Expect(syscall.Kill(leader.PID(), syscall.SIGSTOP)).To(Succeed())
	t.Cleanup(func() { _ = syscall.Kill(leader.PID(), syscall.SIGCONT) })
	g.Eventually(holder).WithArguments(t.Context(), namespace).WithTimeout(timeout).ShouldNot(Or(BeEmpty(), Equal(first)))
	var work errgroup.Group
	for _, s := range all {
		work.Go(func() error { return s.finishAll(t.Context(), messages) })
	}
	g.Expect(work.Wait()).To(Succeed())
	g.Eventually(func() ([]batchv1.Job, error) {
		var left batchv1.JobList
		err := api.List(t.Context(), &left, client.InNamespace(namespace))
		return left.Items, err
	}).WithTimeout(timeout).Should(BeEmpty(), "Jobs that are yet to be pruned")
	g.Expect(count(all)).To(Equal(scaledJobs * messages))

	g.Expect(syscall.Kill(leader.PID(), syscall.SIGCONT)).To(Succeed())
	const more = 20
	var wants []want
	for _, s := range all {
		s.PushTogether(more)
		wants = append(wants, want{scaledJob: s, jobs: messages + more})
	}
	g.Eventually(leader.Exited()).WithTimeout(timeout).Should(BeClosed())
	_ = leader.Kill()
	requireExactly(t, standby, jobwatch.Row{
		Fault:   "the leader stands still for longer than its lease, and goes on when all its Jobs are done and gone",
		Promise: "it creates nothing until it has ended",
	}, wants...)
}

func count(all []*scaledJob) (sum int) {
	for _, s := range all {
		sum += s.Jobs.Created()
	}
	return sum
}

// finishAll finishes that many Jobs, as they come.
func (s *scaledJob) finishAll(ctx context.Context, jobs int) error {
	done := map[string]bool{}
	for len(done) < jobs {
		for _, name := range s.Jobs.Unfinished() {
			if done[name] {
				continue
			}
			if err := s.finish(ctx, name); err != nil {
				return err
			}
			done[name] = true
		}
		if err := sjtest.Pause(ctx, pollInterval); err != nil {
			return err
		}
	}
	return nil
}

func TestKilledInMidBurst(t *testing.T) {
	skip.UnderShort(t, "creates 2,000 Jobs; TestKilledInMidBurstWhileKeysAreTracked creates fewer")
	t.Parallel()
	killInMidBurst(t, 2000, []int{100, 600, 1200})
}

func TestKilledInMidBurstWhileKeysAreTracked(t *testing.T) {
	t.Parallel()
	killInMidBurst(t, 400, []int{100, 250}, sjtest.Tracking)
}

// killInMidBurst kills the operator whenever there are so many Jobs.
func killInMidBurst(t *testing.T, messages int, kills []int, changes ...sjtest.Change) {
	t.Helper()
	g := NewWithT(t)
	s, proxy := newSingle(t, "bursting", int32(messages), changes...)
	proxy.lag(shortLag)

	s.PushTogether(messages)
	for _, jobs := range kills {
		g.Eventually(s.Jobs.Created).WithTimeout(timeout).WithPolling(time.Millisecond).Should(BeNumerically(">=", jobs))
		g.Expect(s.Operator.Kill()).To(Succeed())
		g.Expect(s.Jobs.Created()).To(BeNumerically("<", messages), "Jobs at the moment of the kill")
		s.Operator = startOperator(t, proxy, []string{s.Namespace})
	}
	requireExactly(t, s.Operator, jobwatch.Row{
		Fault:   fmt.Sprintf("kill -9 in a burst of %d, %d times, watches 0.1 s late", messages, len(kills)),
		Promise: "the next operator counts what the one before has created",
	}, want{scaledJob: s, jobs: messages})
}

// The operator is stopped with creates under way, which are answered only after it has begun to stop.
func TestStoppedInMidBatch(t *testing.T) {
	skip.UnderShort(t, "TestKilledInMidBurstWhileKeysAreTracked ends the operator without notice, which is harder")
	t.Parallel()
	// By the batches of one that is careful, 1, 2, 4, 8 and 16, so that the last of these is under way as a whole.
	const messages, before = 100, createsAtOnce - 1
	g := NewWithT(t)
	s, proxy := newSingle(t, "bursting", messages)
	proxy.lag(longLag)
	late := proxy.holdCreates(before, 1)

	s.PushTogether(messages)
	g.Eventually(late.Held).WithTimeout(timeout).Should(Equal(createsAtOnce))
	var stop errgroup.Group
	stop.Go(func() error { return s.Operator.Stop(t.Context()) })
	g.Eventually(s.Subscribers).WithContext(t.Context()).WithTimeout(timeout).Should(BeZero())
	g.Expect(late.Release()).To(Succeed())
	g.Expect(stop.Wait()).To(Succeed(), "with status 0")
	g.Expect(late.Abandoned()).To(BeZero(), "creates that the operator did not wait for")
	g.Expect(s.Jobs.Sync(t.Context())).To(Succeed())
	g.Expect(s.Jobs.Created()).To(Equal(before+createsAtOnce), "Jobs of the operator that was stopped")

	next := startOperator(t, proxy, []string{s.Namespace})
	requireExactly(t, next, jobwatch.Row{
		Fault:   "SIGTERM with 16 creates under way",
		Promise: "they end with an answer, no other begins, and the next operator goes on from there",
	}, want{scaledJob: s, jobs: messages})
}
