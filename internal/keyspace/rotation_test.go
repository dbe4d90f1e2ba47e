// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

const (
	// keysPushed is the number of keys that are pushed to in turn. Each key gets so few pushes that no other push hides
	// a missed wake.
	keysPushed = 300
	pushEvery  = 3 * time.Millisecond
)

// passwordSecret is a Secret with the key password. It is safe for concurrent use.
type passwordSecret struct {
	mu    sync.Mutex
	value string
}

func (s *passwordSecret) set(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value = value
}

func (s *passwordSecret) Read(context.Context, string, string) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string][]byte{"password": []byte(s.value)}, nil
}

// withPassword is an endpoint that takes its password from a [passwordSecret].
var withPassword = auth.Endpoint{
	Address: "redis:6379", Namespace: "team", Password: auth.SecretKey{Name: "redis", Key: "password"},
}

// rotation is a server with latency, and a watcher that authenticates to it with a password from a Secret.
type rotation struct {
	*harness
	server *redistest.Server
	secret *passwordSecret
	keys   []string
	pushes atomic.Int64
}

func newRotation(t *testing.T, prepare ...func(*harness)) *rotation {
	t.Helper()
	rights := []any{"&*", "+ping", "+subscribe", "+unsubscribe", "+llen"}
	return newRotationOf(t, redistest.DefaultEvents, rights, prepare...)
}

// newRotationOf is newRotation with a server that publishes these events, and a user with these rights.
func newRotationOf(t *testing.T, events string, rights []any, prepare ...func(*harness)) *rotation {
	t.Helper()
	server, secret := redistest.New(t, redistest.Options{Events: events}), &passwordSecret{value: "p0"}
	do(t, server, append([]any{"ACL", "SETUSER", "reader", "on", ">p0", "~*"}, rights...)...)
	far := tcpproxy.New(t, server.Addr())
	far.Delay(5 * time.Millisecond) // This leaves time for pushes between two connections.
	endpoint := auth.Endpoint{
		Address: far.Addr(), Username: "reader", Namespace: "team", Password: auth.SecretKey{Name: "redis", Key: "password"},
	}
	r := &rotation{
		harness: newHarnessOn(t, endpoint, connection.Options{Secrets: secret, LookAgain: 50 * time.Millisecond}, prepare...),
		server:  server, secret: secret,
	}
	for i := range keysPushed {
		r.keys = append(r.keys, "queue-"+strconv.Itoa(i))
	}
	return r
}

// watch watches all keys and waits until they are confirmed.
func (r *rotation) watch() {
	r.t.Helper()
	for _, key := range r.keys {
		r.Ensure(key, r.endpoint, list(key))
	}
	r.Eventually(func() bool {
		for _, key := range r.keys {
			if r.State(key).Since.IsZero() || !r.subscribed(key) {
				return false
			}
		}
		return true
	}).Should(BeTrue())
}

func (r *rotation) subscribed(key string) bool {
	r.Watcher.mu.Lock()
	defer r.Watcher.mu.Unlock()
	return r.nodes[database{serverOf(r.endpoint), 0}].State(key).Subscription.Present
}

// subscriber is in the lines of CLIENT LIST for connections with a subscription.
const subscriber = "flags=P"

// ids returns the IDs of the watcher's connections, or of its subscription connections only.
func (r *rotation) ids(only string) []string {
	clients := must.Get(r.server.Client().ClientList(r.t.Context()).Result())(r)
	var found []string
	for line := range strings.Lines(clients) {
		if strings.Contains(line, "user=reader") && strings.Contains(line, only) {
			found = append(found, strings.Fields(line)[0])
		}
	}
	return found
}

// push pushes to one key after the other until ctx is done, and returns the number of pushes to each.
func (r *rotation) push(ctx context.Context) map[string]int64 {
	pushed := map[string]int64{}
	ticker := time.NewTicker(pushEvery)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return pushed
		case <-ticker.C:
		}
		key := r.keys[i%len(r.keys)]
		succeed(r.t, r.server.Client().LPush(r.t.Context(), key, i))
		pushed[key]++
		r.pushes.Add(1)
	}
}

// rotate changes the password in the given steps, and returns when the subscription has moved.
func (r *rotation) rotate(next string, steps ...func(next string)) {
	before := r.ids(subscriber)
	r.Expect(before).To(HaveLen(1))
	for _, step := range steps {
		step(next)
	}
	r.Eventually(r.ids).WithArguments(subscriber).Should(And(HaveLen(1), Not(Equal(before))), next)
}

// inSecret and onServer are the steps of a rotation. After onServer the server rejects the old password; after
// bothAllowed it accepts both.
func (r *rotation) inSecret(next string) { r.secret.set(next) }

func (r *rotation) onServer(next string) {
	do(r.t, r.server, "ACL", "SETUSER", "reader", "resetpass", ">"+next)
}

func (r *rotation) bothAllowed(next string) {
	do(r.t, r.server, "ACL", "SETUSER", "reader", ">"+next)
}

// pushesMeanwhile waits for pushes between two steps.
func (r *rotation) pushesMeanwhile(string) {
	before := r.pushes.Load()
	r.Eventually(r.pushes.Load).Should(BeNumerically(">=", before+100))
}

// newSubscribedWithPassword returns a harness that is subscribed to the queue emails by the password p0, and the
// Secret.
func newSubscribedWithPassword(t *testing.T, server *redistest.Scripted) (*harness, *passwordSecret) {
	t.Helper()
	secret := &passwordSecret{value: "p0"}
	h := newHarnessOn(t, withPassword, connection.Options{Dial: server.Dial, Secrets: secret, LookAgain: 50 * time.Millisecond})
	h.Ensure("emails", withPassword, list("emails"))
	h.eventuallyJudged("emails", verify.ReasonSubscribed)
	return h, secret
}

func TestNoPushIsMissedWhilePasswordsChange(t *testing.T) {
	t.Parallel()
	r := newRotation(t, waking(coalesce.Growth, coalesce.Confirmed))
	r.watch()
	before := r.ids("")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	pushed := make(chan map[string]int64, 1)
	var others sync.WaitGroup
	others.Go(func() { pushed <- r.push(ctx) })
	r.Eventually(r.reason).WithArguments(r.keys[0]).Should(Equal(verify.ReasonSubscribed))
	r.rotate("p1", r.bothAllowed, r.inSecret)
	r.rotate("p2", r.onServer, r.pushesMeanwhile, r.inSecret)
	r.rotate("p3", r.inSecret, r.pushesMeanwhile, r.onServer)
	stop()
	others.Wait()
	for key, times := range <-pushed {
		r.eventually(key, times)
	}
	r.Eventually(r.ids).WithArguments("").ShouldNot(ContainElement(BeElementOf(before)), "the old connections are closed")
}

// While the subscription moves to a connection with another password, the evidence stays valid: the server is the same.
func TestTheVerdictStaysWhilePasswordsChange(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var subscriptions atomic.Int32
		server := redistest.NewPiped(func(args []string) string {
			switch {
			case args[0] == "config":
				return "-NOPERM this user has no permissions\r\n"
			case args[0] == "subscribe" && subscriptions.Add(1) == 1:
				return redistest.UsualAnswer(args) + redistest.Push("message", args[1], "lpush")
			}
			return redistest.Usual
		})
		h, secret := newSubscribedWithPassword(t, server)
		secret.set("p1")
		h.Consistently(h.reason).WithArguments("emails").WithTimeout(3 * verify.GracePeriod).
			Should(Equal(verify.ReasonSubscribed))
		h.Expect(subscriptions.Load()).To(BeEquivalentTo(2), "the subscription has moved")
	})
}

// betweenConnections are causes that wake, and the depth that is found of keys that were pushed to between two
// connections.
var betweenConnections = map[string]struct {
	causes []coalesce.Cause
	depth  int64
}{
	"with confirmations":    {[]coalesce.Cause{coalesce.Growth, coalesce.Confirmed}, 1},
	"without confirmations": {[]coalesce.Cause{coalesce.Growth}, 0},
}

// The new connection may not subscribe until everything was pushed. If its confirmations do not wake, the pushes are
// missed.
func TestPushesBetweenTwoConnectionsAreFoundByConfirmations(t *testing.T) {
	t.Parallel()
	for name, c := range betweenConnections {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRotation(t, waking(c.causes...), func(w *harness) { w.options.Timing.ForbiddenRetry = 50 * time.Millisecond })
			r.keys = r.keys[:8] // Each is refused alone.
			r.watch()
			do(t, r.server, "acl", "setuser", "reader", "-subscribe")
			r.bothAllowed("p1")
			r.inSecret("p1")
			r.Eventually(r.ids).WithArguments(subscriber).Should(BeEmpty())
			r.foundBetween(c.depth, func() {
				do(t, r.server, "acl", "setuser", "reader", "+subscribe")
				r.watch()
			})
		})
	}
}

// foundBetween pushes to all keys but the last one, and then lets the new connection begin. It fails the test unless
// these keys have this depth when the last key has its next wake.
func (r *rotation) foundBetween(depth int64, begin func()) {
	r.t.Helper()
	pushed, last := r.keys[:len(r.keys)-1], r.keys[len(r.keys)-1]
	for _, key := range pushed {
		do(r.t, r.server, "lpush", key, 1)
	}
	begin()
	do(r.t, r.server, "lpush", last, 1)
	r.eventually(last, 1)
	for _, key := range pushed {
		if depth == 0 {
			r.Expect(r.depth(key)).To(BeZero(), key)
		} else {
			r.eventually(key, depth) // Wakes of one key are spaced, so this one may come later.
		}
	}
}

// trackingRights are all rights that a user needs for the tracking of lists. HELLO needs none.
var trackingRights = []any{"resetchannels", "+ping", "+client|tracking", "+llen"}

func newTrackedRotation(t *testing.T, prepare ...func(*harness)) *rotation {
	t.Helper()
	r := newRotationOf(t, redistest.NoEvents, trackingRights, prepare...)
	for _, key := range r.keys {
		r.Track(key, r.endpoint, list(key))
	}
	for _, key := range r.keys {
		r.eventuallyTracked(key, verify.TrackedUnproven)
	}
	succeed(t, r.server.Client().LPush(t.Context(), "proof", 1))
	r.Track("proof", r.endpoint, list("proof"))
	r.eventuallyTracked("proof", verify.TrackedUnproven)
	succeed(t, r.server.Client().LPush(t.Context(), "proof", 1))
	r.eventuallyTracked(r.keys[0], verify.Tracked)
	return r
}

// rotateTracked changes the password and waits until the tracked connection has moved.
func (r *rotation) rotateTracked(next string) {
	before := r.ids("flags=t")
	r.Expect(before).To(HaveLen(1))
	r.bothAllowed(next)
	r.inSecret(next)
	r.Eventually(r.ids).WithArguments("flags=t").WithPolling(5*time.Millisecond).
		Should(And(HaveLen(1), Not(Equal(before))), next)
}

// pushWhileRotating pushes while the password changes some times, and returns the number of pushes to each key.
func (r *rotation) pushWhileRotating(times int) map[string]int64 {
	ctx, stop := context.WithCancel(r.t.Context())
	pushed := make(chan map[string]int64, 1)
	go func() { pushed <- r.push(ctx) }()
	for i := range times {
		r.rotateTracked("p" + strconv.Itoa(i+1))
	}
	stop()
	return <-pushed
}

func TestNoPushToATrackedKeyIsMissedWhilePasswordsChange(t *testing.T) {
	t.Parallel()
	r := newTrackedRotation(t, waking(coalesce.Growth, coalesce.Confirmed))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			if state := r.State(r.keys[0]).Tracking; state != verify.Tracked {
				t.Errorf("the tracking was %d for a moment", state)
				return
			}
			pause(ctx, time.Millisecond)
		}
	})
	expected := r.pushWhileRotating(5)
	stop()
	watching.Wait()
	for key, times := range expected {
		r.eventually(key, times)
	}
}

// The new connection may not read any key until everything was pushed. If the wakes that follow the first read of a
// connection are left out, the pushes are missed.
func TestPushesToTrackedKeysBetweenTwoConnectionsAreFoundByConfirmations(t *testing.T) {
	t.Parallel()
	for name, c := range betweenConnections {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTrackedRotation(t, waking(c.causes...), func(w *harness) {
				w.options.Timing = shortened()
				w.options.Timing.ForbiddenRetry = 100 * time.Millisecond
			})
			do(t, r.server, "acl", "setuser", "reader", "-llen")
			r.rotateTracked("p1")
			for _, key := range r.keys {
				r.eventuallyTracked(key, verify.NotTracked)
			}
			r.foundBetween(c.depth, func() {
				do(t, r.server, "acl", "setuser", "reader", "+llen")
				for _, key := range r.keys {
					r.eventuallyTracked(key, verify.Tracked)
				}
			})
		})
	}
}

// faults are what happens to a server while its password changes.
var faults = map[string]func(*rotation){
	"killed again and again": func(r *rotation) {
		for range 20 {
			do(r.t, r.server, "client", "kill", "user", "reader")
			r.wait(10 * time.Millisecond)
		}
	},
	"hangs": func(r *rotation) {
		r.Expect(r.server.Pause()).To(Succeed())
		r.wait(rand.N(1500 * time.Millisecond))
		r.Expect(r.server.Resume()).To(Succeed())
	},
	"forgotten by the pool": func(r *rotation) {
		for range 10 {
			r.pool.Release("team", "a")
			r.wait(rand.N(10 * time.Millisecond))
			r.Expect(r.pool.Claim("team", "a", r.endpoint, 0)).To(Succeed())
			r.wait(rand.N(10 * time.Millisecond))
		}
	},
}

func (r *rotation) wait(d time.Duration) { pause(r.t.Context(), d) }

// beginRotation makes both sides change to the next password, in one of three orders.
func (r *rotation) beginRotation(round int) {
	next := "p" + strconv.Itoa(round+1)
	steps := [][]func(string){{r.bothAllowed, r.inSecret}, {r.onServer, r.inSecret}, {r.inSecret, r.onServer}}
	for _, step := range steps[round%len(steps)] {
		step(next)
		r.wait(rand.N(100 * time.Millisecond))
	}
}

// Nothing is read except after a wake, so a push that is not announced is missed.
func TestNoPushIsMissedWhenAServerFailsWhilePasswordsChange(t *testing.T) {
	t.Parallel()
	impatient := func(h *harness) { h.options.Timing = impatientTracking() }
	for source, begin := range map[string]func(t *testing.T) *rotation{
		"notifications": func(t *testing.T) *rotation { t.Helper(); r := newRotation(t, impatient); r.watch(); return r },
		"tracking":      func(t *testing.T) *rotation { t.Helper(); return newTrackedRotation(t, impatient) },
	} {
		for fault, happens := range faults {
			t.Run(source+", "+fault, func(t *testing.T) {
				t.Parallel()
				r := begin(t)
				r.Expect(r.pool.Claim("team", "a", r.endpoint, 0)).To(Succeed())
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var pushing sync.WaitGroup
				pushing.Go(func() { r.push(ctx) })
				for round := range 6 {
					r.beginRotation(round)
					happens(r)
				}
				stop()
				pushing.Wait()
				for _, key := range r.keys {
					length := must.Get(r.server.Client().LLen(t.Context(), key).Result())(r)
					r.eventually(key, length)
				}
			})
		}
	}
}
