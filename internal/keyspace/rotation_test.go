// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
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

// rotation is a server with latency, and a watcher that authenticates to it with a password from a Secret.
type rotation struct {
	*harness
	server *redistest.Server
	secret *passwordSecret
	keys   []string
}

func newRotation(t *testing.T, prepare ...func(*Watcher)) *rotation {
	t.Helper()
	rights := []any{"&*", "+ping", "+subscribe", "+unsubscribe", "+llen"}
	return newRotationOf(t, redistest.DefaultEvents, rights, prepare...)
}

// newRotationOf is newRotation with a server that publishes these events, and a user with these rights.
func newRotationOf(t *testing.T, events string, rights []any, prepare ...func(*Watcher)) *rotation {
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
	}).WithTimeout(timeout).Should(BeTrue())
}

func (r *rotation) subscribed(key string) bool {
	r.Watcher.mu.Lock()
	defer r.Watcher.mu.Unlock()
	return r.supervisors[r.endpoint].set.state(list(key).channel(), "").Present
}

// ids returns the IDs of the watcher's connections, or of its subscription connections only.
func (r *rotation) ids(only string) []string {
	clients, err := r.server.Client().ClientList(r.t.Context()).Result()
	r.Expect(err).NotTo(HaveOccurred())
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
		must(r.t, r.server.Client().LPush(r.t.Context(), key, i))
		pushed[key]++
	}
}

// rotate changes the password in the given steps, and returns when the subscription has moved.
func (r *rotation) rotate(next string, steps ...func(next string)) {
	before := r.ids("cmd=subscribe")
	r.Expect(before).To(HaveLen(1))
	for _, step := range steps {
		step(next)
	}
	r.Eventually(func() []string { return r.ids("cmd=subscribe") }).WithTimeout(timeout).
		Should(And(HaveLen(1), Not(Equal(before))), next)
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
	length := func() (int64, error) { return r.server.Client().LLen(r.t.Context(), r.keys[0]).Result() }
	before, err := length()
	r.Expect(err).NotTo(HaveOccurred())
	r.Eventually(length).WithTimeout(timeout).Should(BeNumerically(">", before+2))
}

func TestNoPushIsMissedWhilePasswordsChange(t *testing.T) {
	t.Parallel()
	r := newRotation(t)
	r.watch()
	before := r.ids("")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	pushed := make(chan map[string]int64, 1)
	var others sync.WaitGroup
	others.Go(func() { pushed <- r.push(ctx) })
	r.Eventually(func() verify.Reason { return r.State(r.keys[0]).Reason }).WithTimeout(timeout).Should(Equal(verify.ReasonSubscribed))
	others.Go(func() {
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if reason := r.State(r.keys[0]).Reason; reason != verify.ReasonSubscribed {
				t.Errorf("the verdict was %s for a moment", reason)
				return
			}
		}
	})
	r.rotate("p1", r.bothAllowed, r.inSecret)
	r.rotate("p2", r.onServer, r.pushesMeanwhile, r.inSecret)
	r.rotate("p3", r.inSecret, r.pushesMeanwhile, r.onServer)
	stop()
	others.Wait()
	for key, times := range <-pushed {
		r.eventually(key, times)
	}
	r.Eventually(func() []string { return r.ids("") }).WithTimeout(timeout).ShouldNot(ContainElement(BeElementOf(before)), "the old connections are closed")
}

// If the end and the beginning of a session do not wake, pushes in between are missed. This shows that the test above
// can fail.
func TestPushesAreMissedWithoutConfirmations(t *testing.T) {
	t.Parallel()
	r := newRotation(t, func(w *Watcher) {
		mark := w.mark
		w.mark = func(id ID, cause coalesce.Cause) {
			if cause != coalesce.Confirmed && cause != coalesce.Lost {
				mark(id, cause)
			}
		}
	})
	r.watch()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	pushed := make(chan map[string]int64, 1)
	go func() { pushed <- r.push(ctx) }()
	for i := range 3 {
		r.rotate("p"+strconv.Itoa(i+1), r.bothAllowed, r.inSecret)
	}
	stop()
	expected := <-pushed
	r.Eventually(func() bool { return r.State(r.keys[0]).Reason == verify.ReasonSubscribed }).WithTimeout(timeout).Should(BeTrue())
	missed := func() (n int) {
		for key, times := range expected {
			if r.depth(key) != times {
				n++
			}
		}
		return n
	}
	r.Consistently(missed).WithTimeout(2 * time.Second).Should(BeNumerically(">", 0))
}
