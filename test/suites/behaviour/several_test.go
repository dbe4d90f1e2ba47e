// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

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
		Args: append(elect(a.namespace, lease), "--watch-namespaces="+s.Namespace, noFallback),
	})
	a.Eventually(operator.Leader).WithArguments(a.t.Context(), separate.API, a.namespace, lease).ShouldNot(BeEmpty())
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
				s.Expect(s.Operator.Logs()).NotTo(ContainSubstring(both[1-i].Namespace))
			}
		})
	}
}

// elect are the flags for an election by this Lease. It lasts as long as by default, so that a busy machine does not end
// operators whose work is what is tested.
func elect(namespace, lease string) []string {
	return []string{"--leader-elect", "--leader-election-namespace=" + namespace, "--leader-election-id=" + lease}
}

// pushFor pushes ten messages a second, and returns how many it has pushed.
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

// The names of the Jobs keep the two from creating a message's Job twice, but nothing promises that.
func TestTwoInstallationsForOneNamespace(t *testing.T) {
	t.Parallel()
	for name, elections := range map[string]func(namespace string) (one, two []string){
		"each with a Lease": func(namespace string) (one, two []string) {
			return elect(operator.Namespace, namespace+"-a"), elect(operator.Namespace, namespace+"-b")
		},
		"without a Lease": func(string) (one, two []string) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLonelyScaledJob(t)
			s.create(scene.Polling(scene.Never), scene.AtMost(1000))
			first, second := elections(s.Namespace)
			s.operate(first...)
			two := s.operate(second...)
			s.Eventually(s.Subscribers).Should(BeEquivalentTo(2))
			pushed := s.pushFor(5 * time.Second)
			s.Operator = two
			s.expectJobsEver(pushed)
		})
	}
}
