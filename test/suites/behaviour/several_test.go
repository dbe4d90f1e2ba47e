// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"

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

func TestTwoInstallationsInOneNamespace(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.grant(a.namespace, a.rules("Role"))
	both := []*scaledJob{newLonelyScaledJob(t), newLonelyScaledJob(t)}
	a.operateFor(both[0], "blue")
	a.operateFor(both[1], "green")
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
}

// elect are the flags for an election by this Lease. It lasts as long as by default, so that a busy machine does not end
// operators whose work is what is tested.
func elect(namespace, lease string) []string {
	return []string{"--leader-elect", "--leader-election-namespace=" + namespace, "--leader-election-id=" + lease}
}
