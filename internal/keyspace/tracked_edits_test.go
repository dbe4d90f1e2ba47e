// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// calls returns how many times the server has run a command.
func calls(t *testing.T, server *redistest.Server, command string) int {
	t.Helper()
	info, err := server.Client().Info(t.Context(), "commandstats").Result()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return numberAfter(t, info, "cmdstat_"+command+":calls=")
}

// The type of a queue is corrected. Nothing reads the key as the old type any longer.
func TestACorrectedTypeIsReadByItsCommandOnly(t *testing.T) {
	t.Parallel()
	h, server := newTracked(t, func(w *harness) { w.options.Timing = shortened() })
	h.Track("corrected", h.endpoint, list("emails"), list("other"))
	h.eventuallyWoken("corrected", coalesce.Confirmed, 1)
	do(t, server, "sadd", "emails", 1)
	h.Eventually(func() string { return server.Client().Info(t.Context(), "errorstats").Val() }).WithTimeout(timeout).
		Should(ContainSubstring("errorstat_WRONGTYPE"))
	set := Key{Name: "emails", Class: verify.ClassSet}
	h.Track("corrected", h.endpoint, set, list("other"))
	do(t, server, "sadd", "emails", 2)
	h.Eventually(func() int { return calls(t, server, "scard") }).WithTimeout(timeout).Should(Equal(1))
	h.Consistently(func() int { return calls(t, server, "scard") }).Should(Equal(1))
}

func TestNothingToTrackIsNotTracked(t *testing.T) {
	t.Parallel()
	h, _ := newTracked(t)
	h.Track("emails", h.endpoint)
	h.Expect(h.State("emails")).To(Equal(State{}))
	h.Expect(h.Observed("emails", "emails", 1, time.Now())).To(BeFalse())
	h.SetIdle(named("emails"), true)
	h.Track("emails", h.endpoint, list("emails"))
	h.eventuallyTracked("emails", verify.TrackedUnproven)
	h.Track("emails", h.endpoint)
	h.Expect(h.State("emails").Tracking).To(Equal(verify.NotTracked))
	h.Forget("emails")
}

// The key of a list has another type. Redis tells when that changes.
func TestAKeyThatGetsItsTypeIsTrackedAtOnce(t *testing.T) {
	t.Parallel()
	h, server := newTracked(t, func(w *harness) { w.options.Timing.ForbiddenRetry = time.Hour })
	do(t, server, "set", "emails", "no list")
	h.Track("emails", h.endpoint, list("emails"), list("other"))
	h.Eventually(func() int { return calls(t, server, "llen") }).WithTimeout(timeout).Should(BeNumerically(">=", 2))
	before := h.count("emails", coalesce.Growth)
	do(t, server, "del", "emails")
	h.eventuallyWoken("emails", coalesce.Growth, before+1)
	do(t, server, "lpush", "emails", 1)
	h.eventually("emails", 1)
}

// Between the reads of a server, the operator waits the longer the more ScaledJobs share it.
func TestAllWhoUseAServerAreCounted(t *testing.T) {
	t.Parallel()
	h, _ := newTracked(t)
	h.ensure("emails")
	elsewhere := list("letters")
	elsewhere.Database = 3
	h.Track("letters", h.endpoint, elsewhere)
	h.Expect(h.State("emails").Watchers).To(Equal(2))
	h.Expect(h.State("letters").Watchers).To(Equal(2))
	h.Forget("emails")
	h.Expect(h.State("letters").Watchers).To(Equal(1))
}
