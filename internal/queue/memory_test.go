// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestRefusalsAreForgottenAfterAMinute(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		var remembered refusal
		g.Expect(remembered.holds()).To(BeFalse())
		remembered.note()
		time.Sleep(refusalMemory - time.Nanosecond)
		g.Expect(remembered.holds()).To(BeTrue())
		time.Sleep(time.Nanosecond)
		g.Expect(remembered.holds()).To(BeFalse())
	})
}

func TestEachServerHasItsMemory(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := connection.NewPool(connection.Options{})
	at := func(address string, database int) *memory {
		return memoryOf(pool.Conn(auth.Endpoint{Address: address}, database))
	}
	at("first:6379", 0).transactions.note()
	g.Expect(at("first:6379", 1).transactions.holds()).To(BeTrue(), "a database of the same server")
	g.Expect(at("first:6379", 0).pending.holds()).To(BeFalse())
	g.Expect(at("second:6379", 0).transactions.holds()).To(BeFalse())
}
