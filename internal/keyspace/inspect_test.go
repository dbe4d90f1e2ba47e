// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/proof"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/test/redistest"
)

func TestUntilAsking(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(untilAsking(proof.Setting{}, false)).To(Equal(askAgain), "no answer")
	g.Expect(untilAsking(proof.Setting{Readable: true, Flags: "Kl"}, true)).To(Equal(askAgain))
	g.Expect(untilAsking(proof.Setting{}, true)).To(Equal(refusedAgain), "each refusal is logged by the server")
	g.Expect(untilAsking(proof.Setting{Readable: true, Refused: true}, true)).To(Equal(refusedAgain))
}

// What can't be understood is no answer that counts, and harms nobody.
func TestOddAnswersToTheQuestion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		want   proof.Reason
	}{
		"nothing":            {"*0\r\n", proof.ReasonUnverified},
		"another parameter":  {"%1\r\n$4\r\nsave\r\n$0\r\n\r\n", proof.ReasonUnverified},
		"a refusal":          {"-ERR this service has no CONFIG\r\n", proof.ReasonUnverified},
		"no flags":           {"%1\r\n$22\r\nnotify-keyspace-events\r\n$0\r\n\r\n", proof.ReasonNotConfigured},
		"flags and nonsense": {"%1\r\n$22\r\nnotify-keyspace-events\r\n$7\r\n<b>K\xfflA\r\n", proof.ReasonSubscribed},
		"a number":           {":1\r\n", proof.ReasonUnverified},
		"no answer at all":   {redistest.Nothing, proof.ReasonUnverified},
		"no Redis":           {"hello\r\n", proof.ReasonUnverified},
		"the end":            {redistest.HangUp, proof.ReasonUnverified},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			server := redistest.NewScripted(t, func(args []string) string {
				if args[0] == "config" {
					asked.Add(1)
					return c.answer
				}
				return redistest.Usual
			})
			h := newHarness(t, server.Addr())
			h.Ensure("emails", h.endpoint, "emails")
			h.Eventually(func() proof.Reason { return h.State("emails").Reason }).WithTimeout(timeout).WithPolling(10 * time.Millisecond).
				Should(Equal(c.want))
			h.Eventually(asked.Load).WithTimeout(timeout).Should(BeNumerically(">=", 1))
			_, err := h.reader.Observe(t.Context(), queue.Source{Endpoint: h.endpoint, Key: "emails"})
			h.Expect(err).NotTo(HaveOccurred(), "everything else works")
		})
	}
}

// A service may say OK and do nothing.
func TestASettingThatWasNotTakenIsNotBelieved(t *testing.T) {
	t.Parallel()
	var set atomic.Int32
	server := redistest.NewScripted(t, func(args []string) string {
		switch {
		case args[0] != "config":
			return redistest.Usual
		case args[1] == "get":
			return "%1\r\n$22\r\nnotify-keyspace-events\r\n$0\r\n\r\n"
		default:
			set.Add(1)
			return "+OK\r\n"
		}
	})
	h := newHarness(t, server.Addr(), func(w *Watcher[string]) { w.options.Configure = true })
	h.Ensure("emails", h.endpoint, "emails")
	h.Eventually(func() proof.Verdict { return h.State("emails").Verdict }).WithTimeout(timeout).Should(Equal(
		proof.Verdict{Reason: proof.ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true}))
	h.Expect(set.Load()).To(BeNumerically(">=", 1))
}
