// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

// The server was replaced, and the session moves to the new one before anything is confirmed there. Evidence from the
// old server must not count for the new one.
func TestEvidenceBeginsAnewWithTheFirstConfirmation(t *testing.T) {
	t.Parallel()
	var replaced, waiting, renewed atomic.Bool
	server := redistest.NewScripted(t, func(args []string) string {
		switch {
		case args[0] == "hello" && slices.Contains(args, "p1"):
			renewed.Store(true)
		case args[0] == "config":
			return "-ERR this service has no CONFIG\r\n"
		case args[0] == "subscribe" && !replaced.Load():
			return redistest.Push("subscribe", args[1], 1) + redistest.Push("message", args[1], "lpush")
		case args[0] == "subscribe" && !renewed.Load():
			waiting.Store(true)
			return redistest.Nothing
		}
		return redistest.Usual
	})
	way := tcpproxy.New(t, server.Addr())
	secret := &passwordSecret{value: "p0"}
	endpoint := auth.Endpoint{Address: way.Addr(), Namespace: "team", Password: auth.SecretKey{Name: "redis", Key: "password"}}
	h := newHarnessOn(t, endpoint, connection.Options{Secrets: secret, LookAgain: 50 * time.Millisecond})
	h.Ensure("emails", endpoint, list("emails"))
	reason := func() verify.Reason { return h.State("emails").Reason }
	h.Eventually(reason).WithTimeout(timeout).Should(Equal(verify.ReasonSubscribed))

	replaced.Store(true)
	way.Cut()
	h.Eventually(waiting.Load).WithTimeout(timeout).Should(BeTrue())
	secret.set("p1")
	h.Eventually(reason).WithTimeout(timeout).Should(Equal(verify.ReasonUnverified))
}
