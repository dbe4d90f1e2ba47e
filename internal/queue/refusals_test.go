// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

func TestRefusalsAreForgottenAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		first, second := auth.Endpoint{Address: "first:6379"}, auth.Endpoint{Address: "second:6379"}
		var remembered refusals
		g.Expect(remembered.has(first)).To(BeFalse())
		remembered.add(first)
		g.Expect(remembered.has(first)).To(BeTrue())
		g.Expect(remembered.has(second)).To(BeFalse())
		time.Sleep(refusalMemory - time.Nanosecond)
		remembered.add(second)
		g.Expect(remembered.has(first)).To(BeTrue())
		time.Sleep(time.Nanosecond)
		g.Expect(remembered.has(first)).To(BeFalse())
		g.Expect(remembered.has(second)).To(BeTrue())
		remembered.add(second)
		g.Expect(remembered.until).To(HaveLen(1), "the first endpoint is removed")
	})
}
