// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// recorded is a server that replies what Redis 6.2 has replied on a connection, or on resp3 if it was not asked there.
func recorded(conn string) redistest.Script {
	said := redistest.Redis62()
	return func(args []string) string {
		command := strings.Join(args, " ")
		if reply, ok := said[conn+" "+command]; ok {
			return reply
		}
		return said["resp3 "+command]
	}
}

func TestASessionWithRedis62(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		said := redistest.Redis62()
		var reads atomic.Int32
		h := on(t, func(args []string) string {
			switch args[0] {
			case subscribe, ping:
				return recorded("listener")(args) + said["listener"]
			case unsubscribe:
				return recorded("listener")(args)
			case "llen":
				if reads.Add(1) == 1 {
					return recorded("tracker")(args) + said["tracker"]
				}
			}
			return recorded("tracker")(args)
		}, byBoth, "emails")
		h.eventuallyMarked("emails Confirmed", "emails Growth")
		time.Sleep(time.Minute)
		state := h.State("emails")
		h.Expect(state.Subscription.Present).To(BeTrue())
		h.Expect(state.Subscription.HeardAt).NotTo(BeZero())
		h.Expect(state.Valid.Present).To(BeTrue())
		h.Expect(state.Proven).To(BeTrue())
		h.Expect(h.count("llen")).To(Equal(2), "after the invalidation again")
		verdict, _ := verify.Judge(h.Evidence(), verify.Key{
			Class: verify.ClassList, Subscription: state.Subscription, Audit: &verify.Audit{},
		}, h.Classes, time.Now())
		h.Expect(verdict.Reason).To(Equal(verify.ReasonSubscribed))
		h.Watch("emails", named("emails"), notWatched, false)
		h.Eventually(h.count).WithArguments(unsubscribe).Should(Equal(1))
		time.Sleep(time.Minute)
		h.Expect(h.ended()).To(BeZero())
	})
}

// The user lacks the permissions for the channel, for CLIENT TRACKING and for CONFIG.
func TestAUserOfFewPermissionsOfRedis62(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		said := redistest.Redis62()
		h := on(t, func(args []string) string {
			switch args[0] {
			case "hello":
				return said["resp3 hello 3"]
			case subscribe:
				return said["limited subscribe other"]
			}
			return recorded("limited")(args)
		}, byBoth, "emails")
		time.Sleep(10 * time.Second)
		state := h.State("emails")
		h.Expect(state.Subscription.Forbidden).To(BeTrue())
		h.Expect(state.Tracked).To(BeFalse())
		h.Expect(h.logged()).To(ContainElements(
			And(ContainSubstring("Redis rejects subscriptions"), ContainSubstring("PermissionDenied")),
			And(ContainSubstring("Redis does not track keys"), ContainSubstring("PermissionDenied"), ContainSubstring("client"))))
		h.Expect(h.ended()).To(Equal(1), "the refusal")
	})
}

// HELLO was renamed.
func TestRedis62WithoutHello(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		said := redistest.Redis62()
		h := on(t, func(args []string) string {
			switch args[0] {
			case "hello":
				return said["resp3 helo 3"]
			case ping:
				return recorded("resp2")(args) + said["resp2"]
			}
			return recorded("resp2")(args)
		}, byBoth, "emails")
		h.eventuallyMarked("emails Confirmed", "emails Growth")
		time.Sleep(time.Minute)
		h.Expect(h.present("emails")).To(BeTrue())
		h.Expect(h.State("emails").Tracked).To(BeFalse())
		h.Expect(h.ended()).To(BeZero())
	})
}
