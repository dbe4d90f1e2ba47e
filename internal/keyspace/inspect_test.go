// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/proof"
)

func TestUntilAsking(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(untilAsking(proof.Setting{})).To(Equal(askAgain), "no answer")
	g.Expect(untilAsking(proof.Setting{Asked: true, Readable: true, Flags: "Kl"})).To(Equal(askAgain))
	g.Expect(untilAsking(proof.Setting{Asked: true})).To(Equal(refusedAgain), "each refusal is logged by the server")
	g.Expect(untilAsking(proof.Setting{Asked: true, Readable: true, Refused: true})).To(Equal(refusedAgain))
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			server := serveScript(t, func(args []string) string {
				if args[0] == "config" {
					asked.Add(1)
					return c.answer
				}
				return ""
			})
			h := newHarness(t, server.address)
			h.Ensure("emails", h.endpoint, "emails")
			h.Eventually(func() proof.Reason { return h.State("emails").Reason }).WithTimeout(timeout).WithPolling(10 * time.Millisecond).
				Should(Equal(c.want))
			h.Expect(asked.Load()).To(BeNumerically(">=", 1))
		})
	}
}
