// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

const (
	// pushInterval is how often a message comes while credentials change.
	pushInterval = 400 * time.Millisecond
	// plenty is a maxReplicas that is not reached.
	plenty = 10000
)

// rotation is a way to change credentials that are in use.
type rotation struct {
	name string
	// stage returns the server, the spec, and what changes the credentials.
	stage func(s *scaledJob) (on *server, spec []sjtest.Change, rotate func())
}

func TestCredentialsChangeWithoutALossUnderLoad(t *testing.T) {
	t.Parallel()
	rotations := []rotation{
		{"password, in Redis first", rotatePasswordInRedisFirst},
		{"password, in the Secret first", rotatePasswordInSecretFirst},
		{"authority and certificate of the server", rotateAuthority},
		{"authority and certificate of the operator", rotateClient},
	}
	name := func(r rotation) string { return r.name }
	for _, rotation := range skip.AllButNamed(t, rotations, name, "password, in the Secret first", "authority and certificate of the server") {
		t.Run(rotation.name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			server, spec, rotate := rotation.stage(s)
			s.create(append(spec, sjtest.AtMost(plenty))...)
			s.expectNoticed()
			before := server.identifiers(tenant)
			s.Expect(before).NotTo(BeEmpty())
			stop := s.keepPushing()
			rotate()
			s.Eventually(server.identifiers).WithArguments(tenant).
				Should(And(Not(BeEmpty()), Not(ContainElement(BeElementOf(before)))), s.Explain)
			stop()
			s.awaitJobs()
			s.awaitConnected()
			s.expectNoticed()
			s.Expect(server.subscribers(tenant)).To(HaveLen(1))
		})
	}
}

// keepPushing adds messages until stop is called.
func (s *scaledJob) keepPushing() (stop func()) {
	ended, done := make(chan struct{}), make(chan error, 1)
	ctx := s.t.Context()
	go func() {
		for {
			select {
			case <-ended:
				done <- nil
				return
			default:
			}
			if err := s.pushOne(ctx); err != nil {
				done <- err
				return
			}
			if err := sjtest.Pause(ctx, pushInterval); err != nil {
				done <- err
				return
			}
		}
	}()
	return func() {
		s.t.Helper()
		close(ended)
		s.Expect(<-done).To(Succeed())
	}
}

func rotatePasswordInRedisFirst(s *scaledJob) (*server, []sjtest.Change, func()) {
	server := newClosedServer(s.t)
	spec := s.on(server)
	next := knownSecrets.password()
	return server, spec, func() {
		server.permit("resetpass", ">"+next)
		s.putPassword(next)
	}
}

// rotatePasswordInSecretFirst has the operator be refused before Redis learns of the new password, too.
func rotatePasswordInSecretFirst(s *scaledJob) (*server, []sjtest.Change, func()) {
	server := newClosedServer(s.t)
	spec := s.on(server)
	next := knownSecrets.password()
	return server, spec, func() {
		s.putPassword(next)
		s.Eventually(server.refusals).WithArguments(tenant).Should(ContainElement(refusedSignIn()))
		server.permit("resetpass", ">"+next)
	}
}

// refusedSignIn is how ACL LOG reports credentials that were wrong.
func refusedSignIn() types.GomegaMatcher { return HavePrefix("auth ") }

func rotateAuthority(s *scaledJob) (*server, []sjtest.Change, func()) {
	old, next := certificates.NewAuthority(s.t), certificates.NewAuthority(s.t)
	server, spec := s.secure(old, nil)
	return server, spec, func() {
		server.show(next.Server(s.t, loopback))
		s.putTrust(next, next.Client(s.t, "operator"))
	}
}

func rotateClient(s *scaledJob) (*server, []sjtest.Change, func()) {
	old, next := certificates.NewAuthority(s.t), certificates.NewAuthority(s.t)
	server, spec := s.secure(old, old)
	return server, with(spec, shown), func() {
		server.believe(next)
		s.putTrust(old, next.Client(s.t, "operator"))
	}
}
