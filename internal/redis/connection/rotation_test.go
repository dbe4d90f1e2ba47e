// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// Credentials that were loaded earlier do not replace those that were found to work since.
func TestALateRenewalReplacesNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	asked, answer := make(chan struct{}, 8), make(chan struct{})
	scripted := redistest.NewScripted(t, func(args []string) string {
		if args[0] == "hello" && args[len(args)-1] == "second" {
			asked <- struct{}{}
			<-answer
		}
		return redistest.Usual
	})
	secrets := newSecrets(map[string]string{"password": "first"})
	pool := startReal(t, withSecrets(secrets))
	endpoint := auth.Endpoint{Address: scripted.Addr(), Password: password, Namespace: namespace}
	conn := pool.Conn(endpoint, 0)
	length(t, conn)
	server := must.Get(pool.acquire(endpoint))(g)
	defer pool.release(server)

	secrets.set(map[string]string{"password": "second"})
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		pool.renewals <- struct{}{}
		pool.renew(t.Context(), server)
	}()
	g.Eventually(asked).WithTimeout(timeout).Should(Receive())
	secrets.set(map[string]string{"password": "third"})
	loaded, cause := server.lookAgain(t.Context())
	g.Expect(cause).To(BeNil())
	server.markUp(loaded)
	close(answer)
	g.Eventually(renewed).WithTimeout(timeout).Should(BeClosed())
	inUse, _ := server.current()
	g.Expect(inUse.Password()).To(Equal("third"))
}

// rotating is a server with a user, and a pool that authenticates as this user.
type rotating struct {
	*WithT
	t       *testing.T
	server  *redistest.Server
	secrets *fakeSecrets
	conn    *Conn
}

// newRotating returns what a test needs, which it runs in parallel with others.
func newRotating(t *testing.T, prepare ...func(*Pool)) *rotating {
	t.Helper()
	t.Parallel()
	server, secrets := redistest.New(t, redistest.Options{}), newSecrets(map[string]string{"password": "first"})
	endpoint := user(t, server, "reader", "first")
	// The old connections are closed after the time of a call.
	calls := func(p *Pool) { p.timing.call = 5 * time.Second }
	pool := startReal(t, append([]func(*Pool){withSecrets(secrets), quick, calls}, prepare...)...)
	r := &rotating{WithT: NewWithT(t), t: t, server: server, secrets: secrets, conn: pool.Conn(endpoint, 0)}
	length(t, r.conn)
	return r
}

// acl changes the user.
func (r *rotating) acl(rules ...any) {
	r.Expect(r.server.Client().Do(r.t.Context(), append([]any{"ACL", "SETUSER", "reader"}, rules...)...).Err()).To(Succeed())
}

// inUse returns the password in use.
func (r *rotating) inUse() string {
	server := must.Get(r.conn.pool.acquire(r.conn.endpoint))(r)
	defer r.conn.pool.release(server)
	if found, _ := server.current(); found != nil {
		return found.Password()
	}
	return ""
}

// ids returns the IDs of the user's connections.
func (r *rotating) ids() []string {
	list := must.Get(r.server.Client().ClientList(r.t.Context()).Result())(r)
	var found []string
	for line := range strings.Lines(list) {
		if strings.Contains(line, "user=reader") {
			found = append(found, strings.Fields(line)[0])
		}
	}
	return found
}

// eventuallyRead waits until the Secret was read some more times.
func (r *rotating) eventuallyRead() {
	seen := r.secrets.count()
	r.Eventually(r.secrets.count).WithTimeout(timeout).Should(BeNumerically(">", seen+3))
}

func TestCallsGoOnWhileThePasswordChanges(t *testing.T) {
	r := newRotating(t)
	before := r.ids()
	stop := keepUsing(t, 4, func() {
		if _, err := readLength(t.Context(), r.conn); err != nil && !failure.Classify(err).Busy() {
			t.Errorf("a call failed: %v", err)
		}
	})
	defer stop()
	r.acl(">second")
	r.Expect(r.conn.Do(t.Context(), func(ctx context.Context, client Client) error {
		r.secrets.set(map[string]string{"password": "second"})
		r.Eventually(r.inUse).WithTimeout(timeout).Should(Equal("second"))
		return client.LLen(ctx, "emails").Err()
	})).To(Succeed(), "a call that began before")
	r.acl("<first")
	r.Eventually(r.ids).WithTimeout(timeout).ShouldNot(ContainElement(BeElementOf(before)), "the old connections are closed")
	stop()
}

func TestANewPasswordThatIsRefusedReplacesNothing(t *testing.T) {
	r := newRotating(t)
	before := r.ids()
	r.secrets.set(map[string]string{"password": "not yet"})
	r.eventuallyRead()
	r.Expect(length(t, r.conn)).To(BeZero())
	r.Expect(r.inUse()).To(Equal("first"))
	r.Expect(r.ids()).To(ContainElements(before))
	rejected := r.conn.pool.Rejected(r.conn.endpoint)
	r.Expect(rejected).To(HaveField("Reason", failure.ReasonAuthFailed))

	r.acl(">not yet")
	r.Eventually(r.inUse).WithTimeout(timeout).Should(Equal("not yet"))
	r.Expect(r.conn.pool.Rejected(r.conn.endpoint)).To(BeNil())
}

func TestASecretThatIsAsItWasIsNotRejected(t *testing.T) {
	r := newRotating(t)
	rejected := func() bool { return r.conn.pool.Rejected(r.conn.endpoint) != nil }
	r.secrets.set(map[string]string{"password": "mistyped"})
	r.Eventually(rejected).WithTimeout(timeout).Should(BeTrue())
	r.secrets.set(map[string]string{"password": "first"})
	r.Eventually(rejected).WithTimeout(timeout).Should(BeFalse())
	r.Expect(length(t, r.conn)).To(BeZero())
}

func TestWhatIsNotKnownReplacesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fakeSecrets){
		"away": func(secrets *fakeSecrets) { secrets.fail(errors.New("the API server is away")) },
		"forbidden": func(secrets *fakeSecrets) {
			secrets.fail(&failure.Error{Reason: failure.ReasonSecretForbidden, Message: "not allowed", Err: errors.New("403")})
		},
		"another key": func(secrets *fakeSecrets) { secrets.set(map[string]string{"password": "first\n", "other": "new"}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRotating(t)
			before := r.ids()
			change(r.secrets)
			r.eventuallyRead()
			r.Expect(length(t, r.conn)).To(BeZero())
			r.Expect(r.inUse()).To(Equal("first"))
			r.Expect(r.ids()).To(ContainElements(before))
		})
	}
}

func TestASecretThatIsWithdrawn(t *testing.T) {
	r := newRotating(t)
	openWire(t, r.conn)
	r.secrets.set(nil)
	r.Eventually(func() string { return reasonOf(t, r.conn) }).WithTimeout(timeout).Should(Equal(string(failure.ReasonSecretNotFound)))
	r.Eventually(r.ids).WithTimeout(timeout).Should(BeEmpty(), "no connection with the old credentials is left")

	r.secrets.set(map[string]string{"password": "first"})
	r.Expect(r.conn.WaitUp(t.Context())).To(Succeed())
	r.Expect(length(t, r.conn)).To(BeZero())
}

func TestASubscriptionHasASuccessor(t *testing.T) {
	r := newRotating(t)
	wire := openWire(t, r.conn)
	r.acl("resetpass", ">second") // New connections are rejected until the Secret has the new password too.
	r.secrets.set(map[string]string{"password": "second"})
	next := must.Get(r.conn.nextWire(t.Context(), wire))(r)
	defer next.Close()
	r.Expect(next.credentials.Password()).To(Equal("second"))

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err := r.conn.nextWire(ctx, next)
	r.Expect(err).To(MatchError(context.Canceled), "the credentials have not changed since")
}

// The Secret has a password that the server does not have yet, and the server restarts. The previous password still
// works.
func TestAServerThatComesBackIsUsedAsBeforeUntilItKnowsTheNewPassword(t *testing.T) {
	r := newRotating(t, impatient)
	r.secrets.set(map[string]string{"password": "not yet"})
	r.eventuallyRead()
	r.Expect(r.server.Pause()).To(Succeed())
	r.Eventually(func() string { return reasonOf(t, r.conn) }).WithTimeout(timeout).Should(Equal(string(failure.ReasonUnreachable)))
	r.Eventually(func() bool {
		_, err := readLength(t.Context(), r.conn)
		return failure.Classify(err).Busy()
	}).WithTimeout(timeout).Should(BeFalse())
	r.Expect(r.server.Resume()).To(Succeed())
	r.Expect(length(t, r.conn)).To(BeZero())
	r.Expect(r.inUse()).To(Equal("first"))

	r.acl(">not yet")
	r.Eventually(r.inUse).WithTimeout(timeout).Should(Equal("not yet"))
}

// Servers that do not answer delay the renewal of their own credentials, but must not delay that of others.
func TestSlowServersHoldUpNoRenewal(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		var mu sync.Mutex
		tried := map[string]bool{}
		hang := func(ctx context.Context, _, address string) (net.Conn, error) {
			mu.Lock()
			tried[address] = true
			mu.Unlock()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		pool := start(t, hang, withSecrets(newSecrets(map[string]string{"password": "second"})))
		const many = 400
		defer useFirstPasswords(t, pool, many)()
		time.Sleep(time.Minute)
		mu.Lock()
		found := len(tried)
		mu.Unlock()
		g.Expect(found).To(Equal(many), "within a minute")
	})
}

// useFirstPasswords uses many servers with the password "first". They are kept until release is called.
func useFirstPasswords(t *testing.T, pool *Pool, many int) (release func()) {
	t.Helper()
	g := NewWithT(t)
	before := auth.NewResolver(newSecrets(map[string]string{"password": "first"}), false)
	var used []*server
	for i := range many {
		endpoint := numbered(i)
		endpoint.Password, endpoint.Namespace = password, namespace
		server := must.Get(pool.acquire(endpoint))(g)
		used = append(used, server)
		first, cause := before.Load(t.Context(), endpoint)
		g.Expect(cause).To(BeNil())
		server.replace(nil, first)
	}
	return func() {
		for _, server := range used {
			pool.release(server)
		}
	}
}
