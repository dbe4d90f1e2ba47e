// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func TestTheFirstLookAtASecret(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failure error
		reason  failure.Reason
		words   string
	}{
		"missing": {nil, failure.ReasonSecretNotFound, "none"},
		"forbidden": {
			&failure.Error{Reason: failure.ReasonSecretForbidden, Message: "not allowed", Err: errors.New("403")},
			failure.ReasonSecretForbidden, "not allowed",
		},
		"not known": {errors.New("500"), failure.ReasonUnreachable, "could not read the Secret from the API server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server, secrets := redistest.New(t, redistest.Options{}), newSecrets(nil)
			secrets.fail(test.failure)
			conn := startReal(t, withSecrets(secrets), quick).Conn(user(t, server, "reader", "first"), 0)
			_, err := readLength(t.Context(), conn)
			g.Expect(failure.Classify(err).Reason).To(Equal(test.reason))
			g.Expect(failure.Classify(err).Message).To(ContainSubstring(test.words))
			_, err = conn.OpenWire(t.Context())
			g.Expect(failure.Classify(err).Reason).To(Equal(test.reason))

			secrets.set(map[string]string{"password": "first"})
			secrets.fail(nil)
			g.Expect(conn.WaitUp(t.Context())).To(Succeed())
			g.Expect(length(t, conn)).To(BeZero())
		})
	}
}

// slowSecrets answers when the test allows it.
type slowSecrets struct {
	fakeSecrets
	answer chan struct{}
}

func (s *slowSecrets) Read(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	found, err := s.fakeSecrets.Read(ctx, namespace, name)
	select {
	case <-s.answer:
		return found, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func TestOneLoadsWhileOthersWait(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, secrets := redistest.New(t, redistest.Options{}), &slowSecrets{answer: make(chan struct{})}
	secrets.set(map[string]string{"password": "first"})
	conn := startReal(t, withSecrets(secrets)).Conn(user(t, server, "reader", "first"), 0)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			g.Expect(readLength(t.Context(), conn)).Error().To(Or(BeNil(), MatchError(failure.ErrBusy)))
		})
	}
	g.Eventually(secrets.count).WithTimeout(timeout).Should(Equal(1))
	close(secrets.answer)
	callers.Wait()
	g.Expect(secrets.count()).To(Equal(1))
}

func TestASlowAPIServerHoldsNobodyForLong(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	secrets := &slowSecrets{answer: make(chan struct{})}
	endpoint := auth.Endpoint{Address: "127.0.0.1:1", Password: password, Namespace: namespace}
	conn := startReal(t, withSecrets(secrets), impatient).Conn(endpoint, 0)
	_, err := readLength(t.Context(), conn)
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	g.Expect(failure.Classify(err).Message).To(ContainSubstring("API server"))
}

// The rejected credentials may be outdated: the Secret may have changed since it was read.
func TestASecretIsReadAtOnceWhenItsPasswordIsRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	refused := failure.Classify(replyError("WRONGPASS invalid username-password pair"))
	const rest = time.Minute
	pool := NewPool(Options{LookAgain: rest})
	down := func(e auth.Endpoint) *server {
		server := pool.newServer(e)
		inUse, _ := server.current()
		server.markDown(inUse, refused)
		return server
	}
	named := down(auth.Endpoint{Address: somewhere.Address, Password: password, Namespace: namespace})
	g.Expect(named.probeDelay()).To(BeZero())
	named.backoff.Begin()
	g.Expect(named.probeDelay()).To(BeNumerically(">=", firstDelay), "only once")
	g.Expect(down(somewhere).probeDelay()).To(Equal(rest), "the endpoint has no Secret")
}
