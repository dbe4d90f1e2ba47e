// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func TestRefusedTransactionsAreNotTriedAgainSoon(t *testing.T) {
	t.Parallel()
	for _, refused := range []string{"multi", "exec"} {
		t.Run(refused, func(t *testing.T) {
			s := newScene(t)
			s.do("acl setuser default -"+refused, "lpush emails 1 2", "sadd taken 1", "config resetstat")
			queues := []queue.Queue{waiting("emails"), {Key: "taken", Type: queue.Set, InProgress: true}}
			for range 20 {
				s.Expect(s.observe(queues...)).To(Equal([]queue.Count{{Waiting: 2}, {InProgress: 1}}))
				s.Expect(s.observe(queues[0])).To(Equal([]queue.Count{{Waiting: 2}}), "no reply of the rejected transaction is left over")
			}
			s.Expect(s.calls("multi")).To(Equal(1))
		})
	}
}

// Who is busy, or loads its data, takes transactions again afterwards. A server without transactions is not asked
// again.
func TestOnlyServersWithoutTransactionsAreReadWithoutThem(t *testing.T) {
	t.Parallel()
	for refusal, again := range map[string]bool{
		"-BUSY Redis is busy running a script.\r\n":  true,
		"-LOADING Redis is loading the dataset.\r\n": true,
		"-ERR unknown command 'multi'\r\n":           false,
		"-NOPERM this user has no permissions\r\n":   false,
	} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server := redistest.NewScripted(t, redistest.Replies{"multi": refusal, "exec": "-ERR EXEC without MULTI\r\n"}.Script)
			source := queue.Source{
				Endpoint: auth.Endpoint{Address: server.Addr()}, Queues: []queue.Queue{waiting("a"), waiting("b")}, CountLimit: countLimit,
			}
			reader := newReader(t)
			for range 3 {
				g.Expect(reader.Observe(t.Context(), source)).Error().NotTo(HaveOccurred())
			}
			g.Expect(server.Count("multi") == 3).To(Equal(again), "%d transactions", server.Count("multi"))
		})
	}
}

// The error names the rejected command and not the transaction that failed because of it.
func TestRefusedCommandsAreToldFromRefusedTransactions(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"command": "-llen", "subcommand": "-xinfo", "read access to one key": "resetkeys ~jobs",
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.addEntries(1, 3, "x")
			s.do("xgroup create jobs workers 0", "acl setuser default "+rule)
			s.expectRefusal(failure.ReasonPermissionDenied, jobs, waiting("emails"))
			s.do("acl setuser default ~* +@all", "config resetstat")
			s.Expect(s.observe(jobs, waiting("emails"))).To(Equal([]queue.Count{{Waiting: 3}, {}}))
			s.Expect(s.calls("multi")).To(Equal(1), "the transaction itself was not rejected")
		})
	}
}

func TestThePermissionsThatAreNeeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		queue queue.Queue
		needs string
	}{
		"a list":           {ofType("key", queue.List), "+llen"},
		"a set":            {ofType("key", queue.Set), "+scard"},
		"a hash":           {ofType("key", queue.Hash), "+hlen"},
		"a sorted set":     {ofType("key", queue.SortedSet), "+zcard"},
		"due members":      {queue.Queue{Key: "key", Type: queue.SortedSet, Window: queue.Due}, "+zcount +zrange"},
		"live members":     {queue.Queue{Key: "key", Type: queue.SortedSet, Window: queue.Live}, "+zcount"},
		"a stream":         {ofType("key", queue.Stream), "+xlen"},
		"a consumer group": {queue.Queue{Key: "key", Type: queue.Stream, Group: "workers"}, "+xlen +xinfo|groups"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.do("acl setuser default -@all +hello " + c.needs + " resetkeys %R~key")
			s.Expect(s.observe(c.queue)).To(Equal([]queue.Count{{}}))
			s.Expect(s.observe(c.queue, c.queue)).To(Equal([]queue.Count{{}, {}}))
			for need := range strings.FieldsSeq(c.needs) {
				s.do("acl setuser default -" + need[1:])
				s.expectRefusal(failure.ReasonPermissionDenied, c.queue)
				s.do("acl setuser default " + need)
			}
		})
	}
}

const (
	// movedMessages is the number of messages while workers move them.
	movedMessages = 300
	// rounds is how often they are moved from one key to the other.
	rounds = 15
)

// crowded returns so many queues that the server needs more than one read from the connection. Without a transaction it
// then runs commands of other clients in between. It reads first before last.
func crowded(first, last queue.Queue) []queue.Queue {
	queues := []queue.Queue{first}
	for i := range 40 {
		queues = append(queues, queue.Queue{Key: fmt.Sprint(strings.Repeat("k", 1000), i), Type: queue.Set, InProgress: true})
	}
	return append(queues, last)
}

// extremes moves messages one by one from the key "emails" to the key "taken", again and again, and also back if back
// is true. Meanwhile it reads the queues, and returns the lowest and the highest number of messages that it has seen.
func (s *scene) extremes(queues []queue.Queue, back bool) (fewest, most int64) {
	s.t.Helper()
	fewest = movedMessages
	for range rounds {
		s.do("del emails taken", "lpush emails"+strings.Repeat(" x", movedMessages))
		var moving sync.WaitGroup
		for range 2 {
			moving.Go(func() { s.move(back) })
		}
		moved := make(chan struct{})
		go func() {
			moving.Wait()
			close(moved)
		}()
		for ended := false; !ended; {
			select {
			case <-moved:
				ended = true
			default:
			}
			var sum int64
			for _, count := range s.observe(queues...) {
				sum += count.Waiting + count.InProgress
			}
			fewest, most = min(fewest, sum), max(most, sum)
		}
	}
	return fewest, most
}

func (s *scene) move(back bool) {
	client := s.server.Client()
	for range movedMessages / 2 {
		s.Expect(client.LMove(s.t.Context(), "emails", "taken", "left", "right").Err()).To(Succeed())
		if back {
			s.Expect(client.LMove(s.t.Context(), "taken", "emails", "left", "right").Err()).To(Succeed())
		}
	}
}

func TestAMessageThatMovesCountsOnce(t *testing.T) {
	s := newScene(t)
	for _, queues := range [][]queue.Queue{crowded(inProgress("taken"), waiting("emails")), crowded(inProgress("emails"), waiting("taken"))} {
		fewest, most := s.extremes(queues, true)
		s.Expect([]int64{fewest, most}).To(Equal([]int64{movedMessages, movedMessages}))
	}
}

func TestAMessageThatIsTakenCountsOnceAtMostWithoutTransactions(t *testing.T) {
	s := newScene(t)
	s.do("acl setuser default -multi")
	_, most := s.extremes(crowded(inProgress("taken"), waiting("emails")), false)
	s.Expect(most).To(BeEquivalentTo(movedMessages))
}

// If the keys are read in the wrong order, messages count twice. This shows that the tests above can fail.
func TestTheWrongOrderCountsMessagesTwice(t *testing.T) {
	s := newScene(t)
	s.do("acl setuser default -multi")
	s.Eventually(func() int64 {
		_, most := s.extremes(crowded(inProgress("emails"), waiting("taken")), false)
		return most
	}).WithTimeout(timeout).Should(BeNumerically(">", movedMessages))
}
