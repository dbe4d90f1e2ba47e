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
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

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
		s.awaitSubscription(t)
		all = append(all, s)
	}
	standby := startOperator(t, startProxy(t), []string{namespace}, election...)
	first, err := holder(t.Context(), namespace)
	g.Expect(err).NotTo(HaveOccurred())
	for _, s := range all {
		g.Expect(s.PushTogether(t.Context(), messages)).To(Succeed())
	}
	g.Eventually(all[scaledJobs-1].Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", 20))
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
	var claims []claim
	for _, s := range all {
		g.Expect(s.PushTogether(t.Context(), more)).To(Succeed())
		claims = append(claims, claim{scaledJob: s, jobs: messages + more})
	}
	g.Eventually(leader.Exited()).WithTimeout(timeout).Should(BeClosed())
	_ = leader.Kill()
	prove(t, standby, witness.Row{
		Fault:   "the leader stands still for longer than its lease, and goes on when all its Jobs are done and gone",
		Promise: "it creates nothing until it has ended",
	}, claims...)
}

func count(all []*scaledJob) (sum int) {
	for _, s := range all {
		sum += s.Witness.Created()
	}
	return sum
}

// finishAll finishes that many Jobs, as they come.
func (s *scaledJob) finishAll(ctx context.Context, jobs int) error {
	done := map[string]bool{}
	for len(done) < jobs {
		for _, name := range s.Witness.Unfinished() {
			if done[name] {
				continue
			}
			if err := s.finish(ctx, name); err != nil {
				return err
			}
			done[name] = true
		}
		if err := scene.Pause(ctx, pollInterval); err != nil {
			return err
		}
	}
	return nil
}
