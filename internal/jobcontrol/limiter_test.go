// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestRequestsOfANamespaceAreLimited(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		limit := &Limiter{}
		var ends []func()
		for range RequestsEach {
			end := limit.begin(t.Context(), "slow", time.Now().Add(time.Second))
			g.Expect(end).NotTo(BeNil())
			ends = append(ends, end)
		}
		start := time.Now()
		g.Expect(limit.begin(t.Context(), "slow", time.Now().Add(2*time.Second))).To(BeNil())
		g.Expect(time.Since(start)).To(Equal(2 * time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Expect(limit.begin(ctx, "slow", time.Now().Add(time.Hour))).To(BeNil())
		g.Expect(time.Since(start)).To(Equal(3 * time.Second))

		other := limit.begin(t.Context(), "calm", time.Now().Add(time.Second))
		g.Expect(other).NotTo(BeNil())
		other()
		time.AfterFunc(time.Second, ends[0])
		end := limit.begin(t.Context(), "slow", time.Now().Add(time.Minute))
		g.Expect(time.Since(start)).To(Equal(4 * time.Second))

		for _, each := range append(ends[1:], end) {
			each()
		}
		g.Expect(limit.all).To(BeEmpty(), "nothing is left of a namespace without requests")
	})
}
