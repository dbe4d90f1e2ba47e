// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

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
					length, err := r.server.Client().LLen(t.Context(), key).Result()
					r.Expect(err).NotTo(HaveOccurred())
					r.eventually(key, length)
				}
			})
		}
	}
}
