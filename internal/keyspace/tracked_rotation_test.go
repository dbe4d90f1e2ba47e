// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

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
	must(t, r.server.Client().LPush(t.Context(), "proof", 1))
	r.Track("proof", r.endpoint, list("proof"))
	r.eventuallyTracked("proof", verify.TrackedUnproven)
	must(t, r.server.Client().LPush(t.Context(), "proof", 1))
	r.eventuallyTracked(r.keys[0], verify.Tracked)
	return r
}

// rotateTracked changes the password and waits until the tracked connection has moved.
func (r *rotation) rotateTracked(next string) {
	before := r.ids("flags=t")
	r.Expect(before).To(HaveLen(1))
	r.bothAllowed(next)
	r.inSecret(next)
	r.Eventually(func() []string { return r.ids("flags=t") }).WithTimeout(timeout).WithPolling(5*time.Millisecond).
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
	for name, c := range map[string]struct {
		causes []coalesce.Cause
		depth  int64
	}{
		"with confirmations":    {[]coalesce.Cause{coalesce.Growth, coalesce.Confirmed}, 1},
		"without confirmations": {[]coalesce.Cause{coalesce.Growth}, 0},
	} {
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

func TestAUserWithoutTheRightToTrackIsPolled(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
	do(t, server, "acl", "setuser", "default", "reset", "on", "nopass", "~*", "+ping", "+llen", "+acl")
	h := newHarness(t, server.Addr(), func(w *harness) { w.options.Timing = shortened() })
	h.Track("emails", h.endpoint, list("emails"))
	h.Consistently(func() verify.Tracking { return h.State("emails").Tracking }).Should(Equal(verify.NotTracked))
	h.Expect(h.State("emails").Announced()).To(BeFalse())
	do(t, server, "acl", "setuser", "default", "+client|tracking")
	h.eventuallyTracked("emails", verify.TrackedUnproven)
}
