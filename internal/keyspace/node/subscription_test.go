// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func TestAForbiddenChannelIsFoundInFewCommandsAndTriedAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const secret = "c77"
		var granted atomic.Bool
		var mu sync.Mutex
		var sizes []int // number of channels in each SUBSCRIBE
		var keys []string
		for i := range 600 {
			keys = append(keys, fmt.Sprint("c", i))
		}
		h := on(t, modern(func(args []string) string {
			if args[0] != subscribe {
				return redistest.Usual
			}
			mu.Lock()
			defer mu.Unlock()
			sizes = append(sizes, len(args)-1)
			if slices.Contains(args, channelOf(secret)) && !granted.Load() {
				return forbidden
			}
			return redistest.Usual
		}), byBoth, keys...)
		h.eventuallyPresent(slices.DeleteFunc(slices.Clone(keys), func(name string) bool { return name == secret })...)
		h.Eventually(func() bool { return h.State(secret).Subscription.Forbidden }).Should(BeTrue())
		mu.Lock()
		h.Expect(slices.Max(sizes)).To(Equal(maxBatch), "servers limit the number of arguments")
		// There are three commands, and two more for each time that the command with the forbidden channel is halved.
		h.Expect(len(sizes)).To(BeNumerically("<=", 3+2*8))
		mu.Unlock()
		granted.Store(true)
		time.Sleep(DefaultTiming().ForbiddenRetry + time.Second)
		h.Expect(h.present(secret)).To(BeTrue())
		h.Expect(h.State(secret).Subscription.Forbidden).To(BeFalse())
		h.Expect(h.ended()).To(BeZero())
	})
}

func TestARefusalThatEndsByItself(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{"BUSY Redis is busy", "LOADING Redis is loading", "ERR anything"} {
		t.Run(refusal, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				h := on(t, modern(func(args []string) string {
					if args[0] == subscribe && asked.Add(1) <= 2 {
						return "-" + refusal + "\r\n"
					}
					return redistest.Usual
				}), byNotifications, "c", "d")
				h.eventuallyPresent("c", "d")
				h.Expect(h.ended()).To(BeZero())
				h.Expect(h.count(subscribe)).To(Equal(3), "only a command without permission is split")
			})
		})
	}
}

// UNSUBSCRIBE needs no permission, so a server cannot reject it.
func TestAnErrorToAnUnsubscribeEndsTheSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := on(t, modern(redistest.Replies{unsubscribe: "-ERR no\r\n"}.Script), byNotifications, "c")
		h.eventuallyPresent("c")
		h.Watch("c", named("c"), notWatched, false)
		h.eventuallyEnded()
	})
}

// A user may lack the permission for PING. The session does not need it. Redis closes a connection that sends nothing
// only if it is not that of a subscriber.
func TestARefusedPingIsAReply(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		as    Interest
		every time.Duration
	}{
		"subscribed": {byNotifications, 5 * time.Second},
		"tracking":   {byTracking, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				denied := redistest.Replies{ping: "-NOPERM this user has no permissions to run the 'ping' command\r\n"}
				h := on(t, modern(denied.Script), row.as, "c")
				time.Sleep(time.Minute)
				h.Expect(h.count(ping)).To(BeNumerically("~", time.Minute/row.every, 1))
				h.Expect(h.ended()).To(BeZero())
			})
		})
	}
}

// A key with too many notifications is not subscribed to for a minute.
func TestTooManyNotificationsOfAKeyEndItsSubscription(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var subscriptions atomic.Int32
		h := on(t, modern(func(args []string) string {
			if args[0] == subscribe && args[1] == channelOf("a") && subscriptions.Add(1) == 1 {
				return message(subscribe, args[1], "1") + strings.Repeat(message("message", args[1], "lpush"), budget.KeyBurst+100)
			}
			return redistest.Usual
		}), byNotifications, "a")
		h.eventuallyMarked("a Confirmed", "a Growth", "a Changed")
		h.Eventually(h.count).WithArguments(unsubscribe).Should(Equal(1))
		h.Expect(h.present("a")).To(BeFalse())
		h.Watch("b", named("b"), byNotifications, false)
		h.eventuallyPresent("b")
		h.Expect(h.State("a").Subscription.Flooded).To(BeTrue())
		time.Sleep(DefaultTiming().Cooldown)
		synctest.Wait()
		h.Expect(h.present("a")).To(BeTrue())
		h.Expect(subscriptions.Load()).To(BeEquivalentTo(2))
		h.Expect(h.State("a").Subscription.Flooded).To(BeTrue(), "not normal yet")
		time.Sleep(DefaultTiming().Cooldown + DefaultTiming().SubscriberPingAfter)
		h.Expect(h.State("a").Subscription.Flooded).To(BeFalse())
		h.Expect(h.ended()).To(BeZero())
	})
}

// Messages that nobody asked for end the connection, and after that no channel is subscribed to for a while.
func TestNotificationsThatNobodyAskedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := on(t, modern(func(args []string) string {
			if args[0] == subscribe {
				return message(subscribe, args[1], "1") + strings.Repeat(message("message", channelOf("other"), "lpush"), budget.UnsolicitedBurst+100)
			}
			return redistest.Usual
		}), byNotifications, "a")
		h.eventuallyEnded()
		time.Sleep(DefaultTiming().Cooldown / 2)
		h.Expect(h.count(subscribe)).To(Equal(1))
		h.Expect(h.State("a").Subscription.Flooded).To(BeTrue())
		h.Expect(h.marked()).To(ContainElements("a Confirmed", "a Changed"))
	})
}
