// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestLedger(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		var ledger Ledger
		first, second := ledger.pushing(), ledger.pushing()
		g.Expect(first).NotTo(Equal(second))
		ready := time.Now()
		time.Sleep(time.Second)
		ledger.claimed(first, true, ready)
		time.Sleep(time.Second)
		ledger.claimed("", false, ready)
		ledger.claimed(first, true, ready)
		ledger.served(first)

		g.Expect(ledger.Pushed()).To(Equal(2))
		g.Expect(ledger.Served()).To(Equal(1))
		g.Expect(ledger.Repeated()).To(Equal([]string{first}))
		g.Expect(ledger.Wasted()).To(Equal(1))
		g.Expect(ledger.Late(time.Second)).To(Equal(2))
		g.Expect(ledger.Late(2 * time.Second)).To(BeZero())
	})
}
