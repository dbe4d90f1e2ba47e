// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/workers"
)

func TestWhatTakesLongIsMeasuredOnDemand(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(list(true)).To(Equal("scale,servers,jobs,scrapes,strategies,keda"))
	g.Expect(list(false)).To(And(HavePrefix("latency,bursts,"), Not(ContainSubstring("strategies")), Not(ContainSubstring("scale"))))
	g.Expect(choose("strategies")).To(HaveLen(1))
}

func TestWaitingAlone(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var spec scaledjobv1.ScaledJobSpec
	workers.ReliableList(nil, "queue").Count(&spec)
	g.Expect(spec.Queues).To(HaveLen(2))
	waitingAlone(&spec)
	g.Expect(spec.Queues).To(ConsistOf(HaveField("Name", "queue")))
}

func TestMeanAndLast(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	mean, last := meanAndLast([]time.Duration{time.Second, 2 * time.Second, 6 * time.Second})
	g.Expect(mean).To(Equal(3 * time.Second))
	g.Expect(last).To(Equal(6 * time.Second))
	mean, last = meanAndLast(nil)
	g.Expect(mean + last).To(BeZero())
}
