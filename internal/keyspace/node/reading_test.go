// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// reader is a server that tracks keys and answers LLEN by the script.
func reader(llen func(key string) string) redistest.Script {
	return modern(func(args []string) string {
		if args[0] == "llen" {
			return llen(args[1])
		}
		return redistest.Usual
	})
}

func TestAnInvalidationIsFollowedByAReadAndAWake(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		h := on(t, reader(func(string) string {
			switch reads.Add(1) {
			case 1:
				return ":0\r\n" + invalidationOf("a")
			case 2:
				return ":2\r\n" + invalidationOf("a")
			default:
				return ":1\r\n"
			}
		}), byTracking, "a")
		h.eventuallyMarked("a Shrink")
		h.Expect(h.marked()).To(Equal([]string{"a Confirmed", "a Changed", "a Growth", "a Shrink"}), "the first one is a proof")
		state := h.State("a")
		h.Expect(state.Proven).To(BeTrue())
		h.Expect(state.Tracked).To(BeTrue())
		h.Expect(state.Valid.Present).To(BeTrue())
	})
}

func TestPushesInTheMiddleOfReplies(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		other := message("message", channelOf("a"), "lpush")
		h := on(t, reader(func(string) string {
			if reads.Add(1) > 2 {
				return ":5\r\n"
			}
			return other + invalidationOf("b") + ":0\r\n" + ">2\r\n+invalidate\r\n_\r\n" + other
		}), byTracking, "a", "b")
		h.eventuallyMarked("a Confirmed", "b Confirmed", "a Growth", "b Growth")
		h.Expect(h.ended()).To(BeZero())
	})
}

// One connection does both, and an error belongs to the command that it follows.
func TestRefusalsOfOneWayDoNotTouchTheOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		to, reply        string
		present, tracked bool
		counted          int // as ended
	}{
		"channels":   {subscribe, forbidden, false, true, 0},
		"tracking":   {"client", "-NOPERM this user has no permissions to run the 'client|tracking' command\r\n", true, false, 2},
		"no such":    {"client", "-ERR unknown subcommand\r\n", true, false, 2},
		"reads":      {"llen", "-NOPERM this user has no permissions to run the 'llen' command\r\n", true, false, 0},
		"wrong type": {"llen", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", true, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				h := on(t, modern(redistest.Replies{c.to: c.reply}.Script), byBoth, "a")
				time.Sleep(DefaultTiming().ForbiddenRetry - time.Second)
				h.Expect(h.present("a")).To(Equal(c.present))
				h.Expect(h.State("a").Tracked).To(Equal(c.tracked))
				h.Expect(h.count(c.to)).To(Equal(1))
				if !c.present || !c.tracked {
					time.Sleep(2 * time.Second)
					h.Expect(h.count(c.to)).To(Equal(2))
				}
				h.Expect(h.ended()).To(Equal(c.counted))
			})
		})
	}
}

// A server whose table of tracked keys is full sends invalidations although nothing has changed.
func TestInvalidationsWithoutAChangeCauseOneReadASecond(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := on(t, modern(redistest.Replies{"llen": ":7\r\n" + invalidationOf("a")}.Script), byTracking, "a")
		h.eventuallyMarked("a Shrink")
		before := h.count("llen")
		time.Sleep(10*time.Second + readSpacing)
		h.Expect(h.count("llen")-before).To(Equal(10), "no wake is dropped")
	})
}

// The server's table has room for a third of the keys. So it forgets a key with each read, and invalidates it.
func TestAFullTableCostsOneReadASecondForEachKey(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const many, room = 300, 100
		var table []string // One connection has one goroutine.
		h := on(t, reader(func(key string) string {
			table = append(table, key)
			if len(table) <= room {
				return ":0\r\n"
			}
			forgotten := table[0]
			table = table[1:]
			return ":0\r\n" + invalidationOf(forgotten)
		}), byTracking, numbers(many)...)
		time.Sleep(10 * time.Second) // Each length was equal often enough.
		before := h.count("llen")
		const seconds = 20
		time.Sleep(seconds * time.Second)
		synctest.Wait()
		h.Expect(h.count("llen") - before).To(And(BeNumerically(">=", seconds*(many-room-1)), BeNumerically("<=", (seconds+1)*many)))
		h.Expect(len(h.marked())).To(BeNumerically(">=", h.count("llen")), "each read wakes")
		h.Expect(h.ended()).To(BeZero())
	})
}

func numbers(many int) (all []string) {
	for i := range many {
		all = append(all, strconv.Itoa(i))
	}
	return all
}

// At rest the server is asked for nothing except a PING.
func TestKeysAtRestCostNoReads(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const many = 1000
		h := on(t, modern(usual), byBoth, numbers(many)...)
		time.Sleep(time.Hour)
		synctest.Wait()
		h.Expect(h.count("llen")).To(Equal(many))
		h.Expect(h.count(ping)).To(And(BeNumerically(">", 1700), BeNumerically("<=", 1800)), "one each two seconds")
		h.Expect(h.ended()).To(BeZero())
	})
}

// After a flush, ten thousand keys are read within about a second.
func TestAFlushIsReadInBatches(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const many = 2560
		var reads atomic.Int32
		h := on(t, reader(func(string) string {
			if reads.Add(1) == many {
				return ":0\r\n>2\r\n+invalidate\r\n_\r\n"
			}
			return ":0\r\n"
		}), byTracking, numbers(many)...)
		h.Eventually(reads.Load).Should(BeEquivalentTo(2 * many))
		synctest.Wait()
		h.Expect(h.State("7").Valid.Present).To(BeTrue())
		h.Expect(h.ended()).To(BeZero())
	})
}

// What only a person can correct is tried again after a minute, and what ends by itself after a second.
func TestAReadIsRepeatedSoonIfTheRefusalMayEndByItself(t *testing.T) {
	t.Parallel()
	for refusal, readsInAMinute := range map[string]int{
		"NOPERM no": 1, "LOADING Redis is loading": 60, "BUSY a script": 60, "MOVED 1 host:1": 60,
	} {
		t.Run(refusal, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				h := on(t, modern(redistest.Replies{"llen": "-" + refusal + "\r\n"}.Script), byTracking, "a")
				time.Sleep(time.Minute - time.Millisecond)
				h.Expect(h.count("llen")).To(BeNumerically("~", readsInAMinute, 1))
				time.Sleep(time.Second + time.Millisecond)
				h.Expect(h.count("llen")).To(BeNumerically("~", readsInAMinute+1, 1))
				h.Expect(h.State("a").Tracked).To(BeFalse())
			})
		})
	}
}

func TestBlockedKeysAreReadOnceASecond(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		h := on(t, reader(func(string) string {
			if n := reads.Add(1); n%2 == 0 { // The length changes all the time.
				return ":1\r\n" + invalidationOf("a")
			}
			return ":0\r\n" + invalidationOf("a")
		}), byTracking, "a")
		h.eventuallyMarked("a Confirmed")
		h.Block("a", named("a"), true)
		time.Sleep(1500 * time.Millisecond) // in the middle between two reads
		blocked := reads.Load()
		time.Sleep(10 * time.Second)
		h.Expect(reads.Load() - blocked).To(BeEquivalentTo(10))
		h.Block("a", named("a"), false)
		free := reads.Load()
		time.Sleep(time.Second)
		h.Expect(reads.Load() - free).To(BeNumerically("~", time.Second/readSpacing, 1))
	})
}

// A key whose slot moves to the node is read after ASKING, if one of those who watch it says so.
func TestAKeyOfAMovingSlotIsReadAfterAsking(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		h := on(t, modern(func(args []string) string {
			mu.Lock()
			defer mu.Unlock()
			if args[0] == asking || args[0] == "llen" {
				log = append(log, args[0])
			}
			return redistest.Usual
		}), byTracking, "a")
		moving := byTracking
		moving.Asking = true
		h.Watch("a", named("b"), moving, false)
		h.eventuallyMarked("a Confirmed", "b Confirmed")
		mu.Lock()
		defer mu.Unlock()
		// The key may have been read before anybody said that its slot moves.
		h.Expect(log[max(0, len(log)-2):]).To(Equal([]string{asking, "llen"}))
	})
}

// Each session that has tracked keys leaves its ID in the memory of the server.
func TestShortSessionsTrackLater(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := on(t, modern(redistest.Replies{"llen": redistest.HangUp}.Script), byTracking, "a")
		time.Sleep(time.Hour)
		h.Expect(h.count("client")).To(And(BeNumerically(">=", 10), BeNumerically("<=", 20)))
		h.Expect(h.ended()).To(BeNumerically(">=", h.count("client")))
	})
}

// stream is a server that greets, answers reads with 0, and also sends what flood returns again and again, until the
// connection ends.
func stream(flood func() string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		return redistest.Pipe(func(conn net.Conn) { serveStream(conn, flood) }), nil
	}
}

func serveStream(conn net.Conn, flood func() string) {
	var sending sync.Mutex
	send := func(text string) bool {
		sending.Lock()
		defer sending.Unlock()
		_, err := io.WriteString(conn, text)
		return err == nil
	}
	var flooding sync.WaitGroup
	defer flooding.Wait()
	for args := range redistest.Commands(conn) {
		answer := modern(usual)(args)
		if answer == redistest.Usual {
			answer = redistest.UsualAnswer(args)
		}
		if !send(answer) {
			return
		}
		if args[0] == "client" {
			flooding.Go(func() {
				for send(flood()) {
				}
			})
		}
	}
	_ = conn.Close()
}

// Floods cost a bounded number of reads and wakes, and end the session.
func TestFloodsAreBounded(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]string{
		"keys that nobody watches": invalidationOf("b"),
		"a tracked key":            invalidationOf("a"),
		"all keys":                 ">2\r\n+invalidate\r\n_\r\n",
		"keys of another type":     ">2\r\n+invalidate\r\n*2\r\n:1\r\n*0\r\n",
		"many keys at once":        ">2\r\n+invalidate\r\n*1000\r\n" + strings.Repeat("+b\r\n", 1000),
		"no keys":                  ">2\r\n+invalidate\r\n*0\r\n",
		"an empty push":            ">0\r\n",
		"another kind":             message("message", "x", "lpush"),
		"a deep push":              ">2\r\n+invalidate\r\n*1\r\n*1\r\n*1\r\n+a\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				h := start(t, stream(func() string { return strings.Repeat(flood, 100) }), byTracking, "a")
				h.eventuallyEnded()
				h.Expect(len(h.marked())).To(BeNumerically("<=", 200), "a key is read every 25 ms at most")
			})
		})
	}
}

// A message that comes byte by byte is given up after some time, and does not delay the replies.
func TestAMessageThatDripsEndsTheSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		h := start(t, stream(func() string {
			select {
			case <-t.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
			if sent.Add(1) == 1 {
				return ">2\r\n+invalidate\r\n*1\r\n$10000\r\n"
			}
			return "x"
		}), byTracking, "a")
		h.eventuallyEnded()
	})
}

// A server may answer with the lengths of other keys. Every change that it reports still wakes.
func TestRepliesOfOtherKeysLoseNoWake(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		h := on(t, reader(func(key string) string {
			lengths := map[string]string{"a": ":100\r\n", "b": ":1\r\n"}
			if n := reads.Add(1); n > 2 && n%2 == 0 { // That of the other key.
				lengths["a"], lengths["b"] = lengths["b"], lengths["a"]
			}
			if reads.Load() > 40 {
				return lengths[key]
			}
			return lengths[key] + invalidationOf(key)
		}), byTracking, "a", "b")
		h.Eventually(reads.Load).Should(BeNumerically(">=", 41))
		unwoken := func() int { return int(reads.Load()) - len(h.marked()) }
		h.Eventually(unwoken).Should(BeNumerically("<=", 0), "each read wakes")
		h.Expect(h.ended()).To(BeZero())
	})
}
