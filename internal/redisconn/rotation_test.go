// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redisaccess"
	"miracle.dev/scaledjob-operator/internal/rediserror"
	"miracle.dev/scaledjob-operator/test/certificates"
	"miracle.dev/scaledjob-operator/test/redistest"
)

// rotating is a server with a user, and a pool that signs in as that one.
type rotating struct {
	*WithT
	t       *testing.T
	server  *redistest.Server
	secrets *fakeSecrets
	conn    *Conn
}

func newRotating(t *testing.T) *rotating {
	t.Helper()
	server, secrets := redistest.New(t, redistest.Options{}), newSecrets(map[string]string{"password": "first"})
	endpoint := user(t, server, "reader", "first")
	r := &rotating{
		WithT: NewWithT(t), t: t, server: server, secrets: secrets, conn: startReal(t, withSecrets(secrets), quick).Conn(endpoint, 0),
	}
	length(t, r.conn)
	return r
}

// acl changes the user.
func (r *rotating) acl(rules ...any) {
	r.Expect(r.server.Client().Do(r.t.Context(), append([]any{"ACL", "SETUSER", "reader"}, rules...)...).Err()).To(Succeed())
}

// inUse is the password in use.
func (r *rotating) inUse() string {
	used, err := r.conn.pool.acquire(r.conn.endpoint)
	r.Expect(err).NotTo(HaveOccurred())
	defer r.conn.pool.release(used)
	if found, _ := used.inUse(); found != nil {
		return found.Password()
	}
	return ""
}

// ids are those of the reader's connections.
func (r *rotating) ids() []string {
	list, err := r.server.Client().ClientList(r.t.Context()).Result()
	r.Expect(err).NotTo(HaveOccurred())
	var found []string
	for line := range strings.Lines(list) {
		if strings.Contains(line, "user=reader") {
			found = append(found, strings.Fields(line)[0])
		}
	}
	return found
}

func TestCallsGoOnWhileThePasswordChanges(t *testing.T) {
	t.Parallel()
	r := newRotating(t)
	before := r.ids()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if _, err := readLength(ctx, r.conn); err != nil && ctx.Err() == nil && !rediserror.Classify(err).Busy() {
					t.Errorf("a call failed: %v", err)
				}
			}
		})
	}
	r.acl(">second")
	r.secrets.set(map[string]string{"password": "second"})
	r.Eventually(r.inUse).WithTimeout(timeout).Should(Equal("second"))
	r.acl("<first")
	r.Eventually(r.ids).WithTimeout(timeout).ShouldNot(ContainElement(BeElementOf(before)), "the old connections are closed")
	stop()
	readers.Wait()
}

func TestANewPasswordThatIsRefusedReplacesNothing(t *testing.T) {
	t.Parallel()
	r := newRotating(t)
	before := r.ids()
	r.secrets.set(map[string]string{"password": "not yet"})
	seen := r.secrets.count()
	r.Eventually(r.secrets.count).WithTimeout(timeout).Should(BeNumerically(">", seen+3))
	r.Expect(length(t, r.conn)).To(BeZero())
	r.Expect(r.inUse()).To(Equal("first"))
	r.Expect(r.ids()).To(ContainElements(before))

	r.acl(">not yet")
	r.Eventually(r.inUse).WithTimeout(timeout).Should(Equal("not yet"))
}

func TestWhatIsNotKnownReplacesNothing(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"away":      errors.New("the API server is away"),
		"forbidden": &rediserror.Error{Reason: rediserror.ReasonSecretForbidden, Message: "not allowed", Err: errors.New("403")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRotating(t)
			r.secrets.fail(failure)
			seen := r.secrets.count()
			r.Eventually(r.secrets.count).WithTimeout(timeout).Should(BeNumerically(">", seen+3))
			r.Expect(length(t, r.conn)).To(BeZero())
			r.Expect(r.inUse()).To(Equal("first"))
		})
	}
}

func TestOtherKeysOfASecretReconnectNobody(t *testing.T) {
	t.Parallel()
	r := newRotating(t)
	before := r.ids()
	r.secrets.set(map[string]string{"password": "first\n", "other": "new"})
	seen := r.secrets.count()
	r.Eventually(r.secrets.count).WithTimeout(timeout).Should(BeNumerically(">", seen+3))
	length(t, r.conn)
	r.Expect(r.ids()).To(ContainElements(before))
}

func TestSecretsThatAreWithdrawn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		left   map[string]string
		reason rediserror.Reason
	}{
		"no Secret":      {nil, rediserror.ReasonSecretNotFound},
		"no key":         {map[string]string{"other": "first"}, rediserror.ReasonSecretNotFound},
		"empty password": {map[string]string{"password": "\n"}, rediserror.ReasonSecretInvalid},
		"too large":      {map[string]string{"password": strings.Repeat("x", 256<<10+1)}, rediserror.ReasonSecretInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRotating(t)
			pubSub, err := r.conn.OpenPubSub(t.Context())
			r.Expect(err).NotTo(HaveOccurred())
			defer pubSub.Close()
			r.secrets.set(test.left)
			r.Eventually(func() string { return reasonOf(t, r.conn) }).WithTimeout(timeout).Should(Equal(string(test.reason)))
			r.Eventually(r.ids).WithTimeout(timeout).Should(BeEmpty(), "nothing goes on with them")

			r.secrets.set(map[string]string{"password": "first"})
			r.Expect(r.conn.WaitUp(t.Context())).To(Succeed())
			r.Expect(length(t, r.conn)).To(BeZero())
		})
	}
}

func TestTheFirstLookAtASecret(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failure error
		reason  rediserror.Reason
		words   string
	}{
		"missing": {nil, rediserror.ReasonSecretNotFound, "none"},
		"forbidden": {
			&rediserror.Error{Reason: rediserror.ReasonSecretForbidden, Message: "not allowed", Err: errors.New("403")},
			rediserror.ReasonSecretForbidden, "not allowed",
		},
		"not known": {errors.New("500"), rediserror.ReasonUnreachable, "could not be read from the API server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server, secrets := redistest.New(t, redistest.Options{}), newSecrets(nil)
			secrets.fail(test.failure)
			conn := startReal(t, withSecrets(secrets), quick).Conn(user(t, server, "reader", "first"), 0)
			_, err := readLength(t.Context(), conn)
			g.Expect(rediserror.Classify(err).Reason).To(Equal(test.reason))
			g.Expect(rediserror.Classify(err).Message).To(ContainSubstring(test.words))
			_, err = conn.OpenPubSub(t.Context())
			g.Expect(rediserror.Classify(err).Reason).To(Equal(test.reason))

			secrets.set(map[string]string{"password": "first"})
			secrets.fail(nil)
			g.Expect(conn.WaitUp(t.Context())).To(Succeed())
			g.Expect(length(t, conn)).To(BeZero())
		})
	}
}

// slowSecrets answers when it is told to.
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
	conn := startReal(t, withSecrets(secrets), func(p *Pool) { p.timing.lateAfter = time.Minute }).Conn(user(t, server, "reader", "first"), 0)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			_, err := readLength(t.Context(), conn)
			g.Expect(err).To(Or(BeNil(), MatchError(rediserror.ErrBusy)))
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
	conn := startReal(t, withSecrets(secrets)).Conn(redisaccess.Endpoint{Address: "127.0.0.1:1", Password: password, Namespace: namespace}, 0)
	_, err := readLength(t.Context(), conn)
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	g.Expect(rediserror.Classify(err).Message).To(ContainSubstring("API server"))
}

func TestTheCertificateOfTheAuthorityChanges(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	old, renewed := certificates.NewAuthority(t), certificates.NewAuthority(t)
	server := redistest.New(t, redistest.Options{TLS: &redistest.TLS{Server: renewed.Server(t, "127.0.0.1")}})
	secrets := newSecrets(map[string]string{"ca.crt": string(old.Certificate())})
	conn := startReal(t, withSecrets(secrets), quick).Conn(tlsEndpoint(server.Addr()), 0)
	g.Expect(reasonOf(t, conn)).To(Equal(string(rediserror.ReasonTLSFailed)))
	secrets.set(map[string]string{"ca.crt": string(old.Certificate()) + string(renewed.Certificate())})
	g.Expect(conn.WaitUp(t.Context())).To(Succeed())
	g.Expect(length(t, conn)).To(BeZero())
}

func TestASubscriptionHasASuccessor(t *testing.T) {
	t.Parallel()
	r := newRotating(t)
	pubSub, err := r.conn.OpenPubSub(t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	defer pubSub.Close()
	r.acl("resetpass", ">second") // New connections are refused until the Secret has it too.
	r.secrets.set(map[string]string{"password": "second"})
	next, err := r.conn.Successor(t.Context(), pubSub)
	r.Expect(err).NotTo(HaveOccurred())
	defer next.Close()
	r.Expect(next.access.Password()).To(Equal("second"))

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err = r.conn.Successor(ctx, next)
	r.Expect(err).To(MatchError(context.Canceled), "nothing has changed since")
}
