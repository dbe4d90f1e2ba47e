// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

const (
	// messagesPerEdit is how many messages the neighbour gets, one after the other, until its template is edited.
	messagesPerEdit = 5
	// replaced is how many Jobs each edit replaces.
	replaced = 2
	// triesEach is how often the neighbour gets a message or an edit, on average, until one was served undisturbed.
	triesEach = 4
)

// neighbour is another namespace, which has done nothing: one of its ScaledJobs gets messages, and the template of the
// other one is edited.
type neighbour struct {
	Gomega
	t              *testing.T
	served, edited *sjtest.Test
	edits          int
}

// newNeighbour returns a neighbour that has been served already.
func newNeighbour(t *testing.T) *neighbour {
	t.Helper()
	namespace := shared.Cluster.NewNamespace(t, "neighbour")
	n := &neighbour{Gomega: NewWithT(t), t: t}
	n.served = n.scaledJob(namespace, "served", 1, sjtest.AtMost(1000))
	n.edited = n.scaledJob(namespace, "edited", replaced, immediate)
	return n
}

// scaledJob returns a ScaledJob that has so many Jobs.
func (n *neighbour) scaledJob(namespace, name string, jobs int, changes ...sjtest.Change) *sjtest.Test {
	n.t.Helper()
	s := sjtest.NewTest(n.t, timeout, &sjtest.ScaledJob{
		API: shared.API, Redis: redis.Client(), Address: redis.Addr(), Operator: running,
		Namespace: namespace, Name: name, Queue: namespace + ":" + name,
	})
	s.Create(changes...)
	n.Expect(s.Observe(n.t.Context(), shared.Cluster.Config(), s.Due)).To(Succeed())
	s.AwaitSubscription()
	s.AwaitTemplateChecked()
	s.Push(jobs)
	n.await(s, jobs)
	return s
}

// await returns when so many Jobs of the ScaledJob were created.
func (n *neighbour) await(s *sjtest.Test, jobs int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), timeout)
	defer cancel()
	n.Expect(s.Jobs.AwaitCreated(ctx, jobs)).To(Succeed(), s.Explain)
}

// serve pushes a message, and returns when its Job is there.
func (n *neighbour) serve() {
	n.t.Helper()
	n.served.Push(1)
	n.await(n.served, n.served.Pushed())
}

// edit edits the template, and returns when all Jobs are replaced. No Job is replaced before a dry run has accepted the
// template.
func (n *neighbour) edit() {
	n.t.Helper()
	n.edits++
	n.edited.Update(otherImage)
	n.await(n.edited, replaced*(n.edits+1))
}

func TestANeighbourIsServedWhileANamespaceDoesItsWorst(t *testing.T) {
	skip.UnderShort(t, "TestANeighbourIsServedWhileANamespaceDoesItsWorstInAllWays is smaller, with three at once")
	for _, each := range attacks() {
		t.Run(each.name, func(t *testing.T) {
			n := newNeighbour(t)
			n.expectServed(each.begin(newHostile(t)))
		})
	}
}

func TestANeighbourIsServedWhileANamespaceDoesItsWorstInAllWays(t *testing.T) {
	n := newNeighbour(t)
	h := newHostileInAllWays(t)
	var courses []course
	for _, each := range skip.AllButNamed(t, attacks(), func(a attack) string { return a.name },
		"dry runs hang", "servers flood", "ScaledJobs come and go") {
		courses = append(courses, each.begin(h))
	}
	n.expectServed(courses...)
}

// expectServed asserts that the neighbour gets its Jobs, and that its edits are checked and rolled out, while nothing
// of the attacks comes to its end. Whoever waits for workers that others hold gets them only when something of the
// others ends. Some of it ends just then, by a timeout that nobody waits for; so there are several tries.
func (n *neighbour) expectServed(attacks ...course) {
	n.t.Helper()
	messages := sized(20, 10)
	wanted := messages + messages/messagesPerEdit
	tries := 0
	undisturbed := func(do func()) {
		for disturbed := true; disturbed; {
			tries++
			before := ended(attacks)
			do()
			disturbed = ended(attacks) > before
			n.Expect(tries).To(BeNumerically("<=", triesEach*wanted), "messages and edits, most of which waited for the hostile namespace")
		}
	}
	for i := range messages {
		reach(attacks, i, messages)
		undisturbed(n.serve)
		if i%messagesPerEdit == 0 {
			undisturbed(n.edit)
		}
	}
	n.t.Logf("%d messages and edits for %d that were served while nothing of the hostile namespace ended", tries, wanted)
	reach(attacks, 1, 1)
	n.expectNothingLeft()
}

// expectNothingLeft asserts that the statuses tell that all Jobs are there, of templates that were checked.
func (n *neighbour) expectNothingLeft() {
	n.t.Helper()
	for _, s := range []*sjtest.Test{n.served, n.edited} {
		s.AwaitTemplateChecked()
		n.Eventually(func() int32 { return s.Status().ActiveJobs }).Should(BeEquivalentTo(s.Due()), s.Explain)
		n.Expect(s.Condition(scaledjobv1.ConditionTemplateValid).Reason).To(Equal(scaledjobv1.ReasonAccepted))
		n.Expect(s.Jobs.Violation()).To(BeEmpty())
	}
}

// reach returns when so many parts of those attacks are over that have parts.
func reach(attacks []course, part, of int) {
	for _, each := range attacks {
		if each.reach != nil {
			each.reach(part, of)
		}
	}
}

// ended returns how often something of the attacks has come to its end.
func ended(attacks []course) (total int) {
	for _, each := range attacks {
		if each.ended != nil {
			total += each.ended()
		}
	}
	return total
}
