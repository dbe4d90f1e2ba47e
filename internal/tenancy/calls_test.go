// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestTooManyLateCallsOfOneTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		calls := NewCalls()
		for range lateCalls {
			g.Expect(calls.Begin("team")).To(BeTrue())
			calls.CountLate("team", 1)
		}
		g.Expect(calls.Begin("team")).To(BeFalse())
		g.Expect(calls.Begin("others")).To(BeTrue())
		g.Expect(calls.Begin("")).To(BeTrue(), "nobody in particular")

		for range lateCalls {
			calls.CountLate("team", -1)
			calls.End("team")
		}
		for range lateCalls {
			g.Expect(calls.Begin("team")).To(BeTrue())
		}
		g.Expect(calls.Begin("team")).To(BeFalse(), "it had too many that were late a moment ago")
		time.Sleep(restAfterCrowd)
		g.Expect(calls.Begin("team")).To(BeTrue(), "none is late now")
	})
}

func TestTenantsThatDoNotCallAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		calls := NewCalls()
		g.Expect(calls.Begin("team")).To(BeTrue())
		calls.ForgetIdle()
		g.Expect(calls).NotTo(Equal(NewCalls()), "it calls")
		calls.CountLate("team", lateCalls)
		calls.CountLate("team", -lateCalls)
		calls.End("team")
		calls.ForgetIdle()
		g.Expect(calls).NotTo(Equal(NewCalls()), "a crowd is remembered")
		time.Sleep(restAfterCrowd)
		calls.ForgetIdle()
		g.Expect(calls).To(Equal(NewCalls()))
	})
}
