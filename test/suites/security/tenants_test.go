// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const alice, bob = "alice", "bob"

// welcome makes a user of the server who may do everything with the keys of the
// scene, and nothing with others, and the Secret with the password.
func (s *scaledJob) welcome(server *server, user string) []change {
	s.t.Helper()
	s.redis = server.Client()
	password := planted.password()
	server.user(user, password, "~"+s.queue+"*", "&__keyspace@0__:"+s.queue+"*", "+@all")
	s.keepPassword(password)
	return []change{at(server.Addr()), signedIn(user)}
}

func TestNobodyIsServedByTheConnectionOfAnotherTenant(t *testing.T) {
	t.Parallel()
	server := newClosedServer(t)
	owner, thief := newScaledJob(t), newScaledJob(t)
	spec := owner.welcome(server, alice)
	owner.create(spec...)
	owner.heed()
	for name, attempt := range map[string]struct {
		spec   []change
		reason string
	}{
		"same-secret": {spec, scaledjobv1.ReasonSecretNotFound},
		"no-password": {with(spec, func(spec *scaledjobv1.ScaledJobSpec) {
			spec.Redis.Auth.PasswordSecretRef = nil
		}), scaledjobv1.ReasonAuthFailed},
		"nobody": {with(spec, signedOff), scaledjobv1.ReasonAuthFailed},
	} {
		other := thief.beside(name)
		other.queue = owner.queue
		other.create(attempt.spec...)
		stranger := thief.beside(name + "-elsewhere")
		stranger.create(attempt.spec...)
		for _, refused := range []*scaledJob{other, stranger} {
			refused.awaitFalse(scaledjobv1.ConditionQueueConnected, attempt.reason, "")
			refused.Expect(refused.get().Status.QueueDepth).To(BeNil())
			refused.Expect(refused.jobsEver()).To(BeZero())
		}
	}
	owner.heed()
	owner.Expect(server.refusals(alice)).NotTo(ContainElement(Not(refusedSignIn())), "commands on behalf of the other")
	owner.Expect(server.subscribers(alice)).To(HaveExactElements(HaveKeyWithValue("sub", "1")))
}

func TestTenantsSeeWhatTheirOwnUserSees(t *testing.T) {
	t.Parallel()
	server := newClosedServer(t)
	first, second := newScaledJob(t), newScaledJob(t)
	first.create(first.welcome(server, alice)...)
	first.heed()
	spec := second.welcome(server, bob)
	second.create(spec...)
	second.heed()
	curious := second.beside("curious")
	curious.queue = first.queue
	curious.create(spec...)
	curious.awaitFalse(scaledjobv1.ConditionQueueConnected, scaledjobv1.ReasonPermissionDenied, "")
	curious.Expect(curious.get().Status.QueueDepth).To(BeNil())
	first.heed()
	second.heed()
	curious.Expect(curious.jobsEver()).To(BeZero())
	first.Expect(server.refusals(alice)).NotTo(ContainElement(ContainSubstring(second.queue)))
}

func TestConnectionsAreSharedWithinATenantAndClosedAfterwards(t *testing.T) {
	t.Parallel()
	server := newClosedServer(t)
	scenes := []*scaledJob{newScaledJob(t), newScaledJob(t)}
	for _, s := range scenes {
		spec := s.welcome(server, s.namespace)
		other := s.beside("other")
		s.create(spec...)
		other.create(spec...)
		s.heed()
		other.heed()
		s.Expect(server.subscribers(s.namespace)).To(HaveLen(1))
		s.remove()
		other.heed()
		other.remove()
	}
	for _, s := range scenes {
		s.Eventually(server.connections).WithArguments(s.namespace).Should(BeEmpty())
	}
}

func TestTheSameUserOfTwoTenantsHasConnectionsOfEach(t *testing.T) {
	t.Parallel()
	server := newClosedServer(t)
	first, second := newScaledJob(t), newScaledJob(t)
	password := planted.password()
	server.user(tenant, password, "~*", "&*", "+@all")
	for _, s := range []*scaledJob{first, second} {
		s.redis = server.Client()
		s.keepPassword(password)
		s.create(at(server.Addr()), signedIn(tenant))
		s.heed()
	}
	first.Expect(server.subscribers(tenant)).To(HaveLen(2))
	first.remove()
	first.Eventually(server.subscribers).WithArguments(tenant).Should(HaveLen(1))
	second.heed()
}

func TestThoseWhoNeedNoSecretShareConnections(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	scenes := []*scaledJob{newScaledJob(t), newScaledJob(t)}
	for _, s := range scenes {
		s.redis = server.Client()
		s.create(at(server.Addr()))
		s.heed()
	}
	scenes[0].Expect(server.subscribers("default")).To(HaveLen(1))
	for _, s := range scenes {
		s.remove()
	}
	scenes[0].Eventually(server.connections).WithArguments("default").Should(BeEmpty())
}
