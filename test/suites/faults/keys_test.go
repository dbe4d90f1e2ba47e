// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	goredis "github.com/redis/go-redis/v9"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// oddKeys are names of queues by the names of their ScaledJobs. Those that are not
// UTF-8 cannot be written in a ScaledJob.
var oddKeys = map[string]string{
	"blanks":     " a b ",
	"nul":        "a\x00b",
	"before-nul": "a",
	"lines":      "a\r\nLLEN b",
	"star":       "*",
	"glob":       "[a-z]?*{b}\\",
	"utf-8":      "日本語:é😀",
	"prefix":     "__keyspace@0__:*",
	"longest":    strings.Repeat("é", 512),
}

func TestOddKeysAreTakenLiterally(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	several := 0
	for name, key := range oddKeys {
		q := add(t, fixture, name, func(spec *scaledjobv1.ScaledJobSpec) { spec.QueueName = key })
		several++
		g.Expect(q.Push(t.Context(), several)).To(Succeed(), "each has other messages")
	}
	g.Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
	fault := named(t, "connections reset, new ones refused")
	row, err := fixture.Play(t.Context(), fault, lasting(fault))
	row.Fault += ", odd keys"
	conclude(t, fixture, row, err, fault.Within)
}

// The negative control: by a pattern, the key of that name is not heard of.
func TestControlSubscriptionToAPattern(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	queue := add(t, fixture, "glob", func(spec *scaledjobv1.ScaledJobSpec) { spec.QueueName = oddKeys["glob"] })
	client := goredis.NewClient(&goredis.Options{Addr: fixture.Target.Addr()})
	t.Cleanup(func() { g.Expect(client.Close()).To(Succeed()) })
	pattern := client.PSubscribe(t.Context(), queue.Channel(), "marker")
	for range 2 { // confirmations
		g.Expect(pattern.Receive(t.Context())).To(BeAssignableToTypeOf(&goredis.Subscription{}))
	}
	g.Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
	g.Expect(fixture.Push(t.Context())).To(Succeed())
	g.Expect(fixture.AwaitExpected(t.Context())).To(Succeed())
	g.Expect(fixture.Target.command(t.Context(), "PUBLISH", "marker", "next")).To(Succeed())
	g.Expect(pattern.Receive(t.Context())).To(HaveField("Payload", "next"))
}
