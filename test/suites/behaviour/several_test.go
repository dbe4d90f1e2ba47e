// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// operateFor starts an operator for the namespace of the ScaledJob, as this account, which elects its leader with a Lease
// of this name.
func (a *account) operateFor(s *scaledJob, lease string) {
	a.t.Helper()
	a.grant(s.Namespace, a.rules("ClusterRole"))
	s.Operator = operator.New(a.t, operator.Options{
		Cluster: separate.Cluster, Config: a.access,
		Args: append(a.election(), "--watch-namespaces="+s.Namespace, noFallback, "--leader-election-id="+lease),
	})
	a.Eventually(leader).WithArguments(a.t.Context(), a.namespace, lease).ShouldNot(BeEmpty())
}

// leader is who holds a Lease, and empty while nobody does.
func leader(ctx context.Context, namespace, name string) (string, error) {
	var lease coordinationv1.Lease
	err := separate.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &lease)
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", client.IgnoreNotFound(err)
	}
	return *lease.Spec.HolderIdentity, nil
}

func TestInstallationsSideBySide(t *testing.T) {
	t.Parallel()
	for name, inOneNamespace := range map[string]bool{"in one namespace": true, "in two namespaces": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blue, green := newAccount(t), newAccount(t)
			blue.grant(blue.namespace, blue.rules("Role"))
			one, two := newLonelyScaledJob(t), newLonelyScaledJob(t)
			blue.operateFor(one, "blue")
			if inOneNamespace {
				blue.operateFor(two, "green")
			} else {
				green.grant(green.namespace, green.rules("Role"))
				green.operateFor(two, "blue")
			}
			both := []*scaledJob{one, two}
			for _, s := range both {
				s.create(scene.Polling(scene.Never))
				s.awaitSubscription()
				s.Push(20)
			}
			for i, s := range both {
				s.expectJobsEver(20)
				s.Expect(s.log()).NotTo(BeEmpty())
				s.Expect(s.Operator.Logs()).NotTo(Or(ContainSubstring(both[1-i].Namespace), ContainSubstring("another operator")))
			}
		})
	}
}

// elect are the flags for an election by this Lease, of operators that run as they are shipped.
func elect(lease string) []string {
	return []string{
		"--leader-elect", "--leader-election-namespace=" + operator.Namespace, "--leader-election-id=" + lease,
		"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=500ms",
	}
}

// pushFor pushes a message ten times a second, and returns how many it has pushed.
func (s *scaledJob) pushFor(duration time.Duration) (pushed int) {
	s.t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(duration); time.Now().Before(end); pushed++ {
		s.Push(1)
		<-ticker.C
	}
	return pushed
}

// Nothing but the names of Jobs keeps them from creating twice what is due.
func TestTwoInstallationsForOneNamespaceAreReported(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]func(namespace string) [2][]string{
		"each with a Lease": func(namespace string) [2][]string { return [2][]string{elect(namespace + "-a"), elect(namespace + "-b")} },
		"without a Lease":   func(string) [2][]string { return [2][]string{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLonelyScaledJob(t)
			its := flags(s.Namespace)
			s.create(scene.Polling(scene.Never), scene.AtMost(2000))
			one, two := s.operate(its[0]...), s.operate(its[1]...)
			s.Eventually(s.Subscribers).Should(BeEquivalentTo(2))
			pushed := s.pushFor(40 * time.Second)
			s.Eventually(s.jobsEver).Should(Equal(pushed))
			t.Logf("pushed %d, Jobs %d, events %d\n%s\n%s", pushed, s.jobsEver(), s.events("AnotherOperator"),
				one.LogsAbout("another operator"), two.LogsAbout("another operator"))
			s.Eventually(s.events).WithArguments("AnotherOperator").Should(BeNumerically(">", 0))
		})
	}
}
