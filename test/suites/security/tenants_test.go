// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const alice, bob = "alice", "bob"

// welcome makes a user of the server who may do everything with the keys of the
// ScaledJob, and nothing with others, and the Secret with the password.
func (s *scaledJob) welcome(server *server, user string) []sjtest.Change {
	s.t.Helper()
	s.Redis = server.Client()
	password := knownSecrets.password()
	server.user(user, password, "~"+s.Queue+"*", "&__keyspace@0__:"+s.Queue+"*", "+@all")
	s.putPassword(password)
	return []sjtest.Change{at(server.Addr()), signedIn(user)}
}

func TestNobodyIsServedByTheConnectionOfAnotherTenant(t *testing.T) {
	t.Parallel()
	server := newClosedServer(t)
	owner, thief := newScaledJob(t), newScaledJob(t)
	spec := owner.welcome(server, alice)
	owner.create(spec...)
	owner.expectNoticed()
	for name, attempt := range map[string]struct {
		spec   []sjtest.Change
		reason string
	}{
		"same-secret": {spec, scaledjobv1.ReasonSecretNotFound},
		"no-password": {with(spec, func(spec *scaledjobv1.ScaledJobSpec) {
			spec.Redis.Auth.PasswordSecretRef = nil
		}), scaledjobv1.ReasonAuthFailed},
		"nobody": {with(spec, signedOff), scaledjobv1.ReasonAuthFailed},
	} {
		other := thief.another(name)
		other.Queue = owner.Queue
		other.create(attempt.spec...)
		stranger := thief.another(name + "-elsewhere")
		stranger.create(attempt.spec...)
		for _, refused := range []*scaledJob{other, stranger} {
			refused.awaitFalse(scaledjobv1.ConditionQueueConnected, attempt.reason, "")
			refused.Expect(refused.Get().Status.QueueDepth).To(BeNil())
			refused.Expect(refused.jobsEver()).To(BeZero())
		}
	}
	owner.expectNoticed()
	owner.Expect(server.refusals(alice)).NotTo(ContainElement(Not(refusedSignIn())), "commands on behalf of the other")
	owner.Expect(server.subscribers(alice)).To(HaveExactElements(HaveKeyWithValue("sub", "1")))
}

func TestTenantsSeeWhatTheirOwnUserSees(t *testing.T) {
	t.Parallel()
	server := newClosedServer(t)
	first, second := newScaledJob(t), newScaledJob(t)
	first.create(first.welcome(server, alice)...)
	first.expectNoticed()
	spec := second.welcome(server, bob)
	second.create(spec...)
	second.expectNoticed()
	curious := second.another("curious")
	curious.Queue = first.Queue
	curious.create(spec...)
	curious.awaitFalse(scaledjobv1.ConditionQueueConnected, scaledjobv1.ReasonPermissionDenied, "")
	curious.Expect(curious.Get().Status.QueueDepth).To(BeNil())
	first.expectNoticed()
	second.expectNoticed()
	curious.Expect(curious.jobsEver()).To(BeZero())
	first.Expect(server.refusals(alice)).NotTo(ContainElement(ContainSubstring(second.Queue)))
}

func TestConnectionsAreSharedWithinATenantAndClosedAfterwards(t *testing.T) {
	t.Parallel()
	server := newClosedServer(t)
	both := []*scaledJob{newScaledJob(t), newScaledJob(t)}
	for _, s := range both {
		spec := s.welcome(server, s.Namespace)
		other := s.another("other")
		s.create(spec...)
		other.create(spec...)
		s.expectNoticed()
		other.expectNoticed()
		s.Expect(server.subscribers(s.Namespace)).To(HaveLen(1))
		s.Delete()
		other.expectNoticed()
		other.Delete()
	}
	for _, s := range both {
		s.Eventually(server.connections).WithArguments(s.Namespace).Should(BeEmpty())
	}
}

func TestTheSameUserOfTwoTenantsHasConnectionsOfEach(t *testing.T) {
	t.Parallel()
	server := newClosedServer(t)
	first, second := newScaledJob(t), newScaledJob(t)
	password := knownSecrets.password()
	server.user(tenant, password, "~*", "&*", "+@all")
	for _, s := range []*scaledJob{first, second} {
		s.Redis = server.Client()
		s.putPassword(password)
		s.create(at(server.Addr()), signedIn(tenant))
		s.expectNoticed()
	}
	first.Expect(server.subscribers(tenant)).To(HaveLen(2))
	first.Delete()
	first.Eventually(server.subscribers).WithArguments(tenant).Should(HaveLen(1))
	second.expectNoticed()
}
