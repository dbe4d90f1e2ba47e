// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// trips counts round trips, and holds each until it is let go.
type trips struct {
	redis.Hook

	begun chan int // how many commands it has
	hold  chan error
}

func (t trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (t trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if commands[0].Name() != "llen" {
			return next(ctx, commands) // The handshake of a connection.
		}
		t.begun <- len(commands)
		if err := <-t.hold; err != nil {
			panic(err)
		}
		return next(ctx, commands)
	}
}

// office has lists of 0, 1, 2 and so on messages, and reads their lengths.
type office struct {
	*WithT
	trips

	server  *miniredis.Miniredis
	client  *redis.Client
	lengths lengths
	ctx     context.Context
	reads   sync.WaitGroup
}

func newOffice(t *testing.T, lists int) *office {
	t.Helper()
	server := miniredis.RunT(t)
	o := &office{
		WithT: NewWithT(t), server: server,
		trips:  trips{begun: make(chan int, lists), hold: make(chan error, lists)},
		client: redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: lists}),
		// So long that all tests but one decide when round trips begin.
		lengths: lengths{gather: time.Hour},
	}
	t.Cleanup(func() { o.Expect(o.client.Close()).To(Succeed()) })
	for messages := 1; messages < lists; messages++ {
		for range messages {
			_, err := server.Push(strconv.Itoa(messages), "message")
			o.Expect(err).NotTo(HaveOccurred())
		}
	}
	o.client.AddHook(o.trips)
	var cancel context.CancelFunc
	o.ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return o
}

// answer is what a read has returned.
type answer struct {
	length int64
	err    error
}

// read begins to read the length of the list with so many messages.
func (o *office) read(ctx context.Context, messages int) *answer {
	got := &answer{length: -1}
	o.reads.Go(func() {
		defer func() {
			if cause := recover(); cause != nil {
				got.err = fmt.Errorf("%v", cause)
			}
		}()
		got.length, got.err = o.lengths.read(ctx, o.client, strconv.Itoa(messages))
	})
	return got
}

// busy has all round trips under way that there may be, for lists of 0 messages and more.
func (o *office) busy() (answers []*answer) {
	for messages := range roundTrips {
		answers = append(answers, o.read(o.ctx, messages))
		o.Eventually(o.begun).Should(Receive(Equal(1)))
	}
	return answers
}

// finish lets so many round trips go, and waits until all reads have ended.
func (o *office) finish(trips int) {
	for range trips {
		o.hold <- nil
	}
	o.reads.Wait()
}

// joined returns how many reads wait for the next round trip.
func (o *office) joined() int {
	o.lengths.mu.Lock()
	defer o.lengths.mu.Unlock()
	return len(o.lengths.of[o.client].next.commands)
}

func TestReadsShareARoundTrip(t *testing.T) {
	t.Parallel()
	const lists = 25
	o := newOffice(t, lists)
	answers := o.busy()
	for messages := roundTrips; messages < lists; messages++ {
		answers = append(answers, o.read(o.ctx, messages))
	}
	o.Eventually(o.joined).Should(Equal(lists - roundTrips))
	o.Consistently(o.begun, "20ms").ShouldNot(Receive(), "no more round trips than allowed")
	o.finish(roundTrips + 1)

	o.Expect(o.begun).To(Receive(Equal(lists - roundTrips)))
	for messages, got := range answers {
		o.Expect(*got).To(Equal(answer{length: int64(messages)}))
	}
	o.Expect(o.lengths.of).To(BeEmpty(), "nothing is kept")
}

// A list that is none has an error of its own, and the others have their lengths.
func TestWrongTypeFailsAlone(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 8)
	o.Expect(o.server.Set("text", "not a list")).To(Succeed())
	o.busy()
	var wrong error
	o.reads.Go(func() { _, wrong = o.lengths.read(o.ctx, o.client, "text") })
	right := o.read(o.ctx, 7)
	o.Eventually(o.joined).Should(Equal(2))
	o.finish(roundTrips + 1)

	o.Expect(wrong).To(MatchError(ContainSubstring("WRONGTYPE")))
	o.Expect(*right).To(Equal(answer{length: 7}))
}

// Whoever gives up, whether it waits or sends, the others get their lengths.
func TestReadThatGivesUpHoldsUpNobody(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 8)
	giving, giveUp := context.WithCancel(o.ctx)
	o.busy()
	gone := o.read(giving, 5)
	o.Eventually(o.joined).Should(Equal(1))
	stays := o.read(o.ctx, 6)
	o.Eventually(o.joined).Should(Equal(2))
	giveUp()
	o.Eventually(func() int {
		o.lengths.mu.Lock()
		defer o.lengths.mu.Unlock()
		return o.lengths.of[o.client].users
	}).Should(Equal(roundTrips + 1))
	o.finish(roundTrips + 1)
	o.Expect(gone.err).To(MatchError(context.Canceled))
	o.Expect(*stays).To(Equal(answer{length: 6}))
}

// The one that sends the round trip is most likely one that gives up then.
func TestSharedRoundTripOutlivesItsSender(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 8)
	giving, giveUp := context.WithCancel(o.ctx)
	o.busy()
	for range 15 {
		o.read(giving, 5)
	}
	stays := o.read(o.ctx, 6)
	o.Eventually(o.joined).Should(Equal(16))
	o.hold <- nil
	o.Eventually(o.begun).Should(Receive(Equal(16)))
	giveUp()
	o.finish(roundTrips)
	o.Expect(*stays).To(Equal(answer{length: 6}))
}

// A panic of the client library is not a length of 0 for those who share the round trip.
func TestPanicIsNoLength(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 8)
	o.busy()
	answers := []*answer{o.read(o.ctx, 6), o.read(o.ctx, 7)}
	o.Eventually(o.joined).Should(Equal(2))
	for range roundTrips {
		o.hold <- nil
	}
	o.hold <- fmt.Errorf("a malformed reply")
	o.reads.Wait()
	for _, got := range answers {
		o.Expect(got.err).To(HaveOccurred())
	}
	o.Expect(o.lengths.of).To(BeEmpty())
}

// A read waits neither for all round trips of others to a server that is far away, nor for long to begin its own.
func TestReadsBeginSoonIfTheServerIsFarAway(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 8)
	o.lengths.gather = time.Millisecond
	o.busy()
	answers := []*answer{o.read(o.ctx, 6)}
	o.Eventually(o.begun).Should(Receive(Equal(1)), "while the others are still under way")
	answers = append(answers, o.read(o.ctx, 7))
	o.Eventually(o.begun).Should(Receive(Equal(1)))
	o.finish(roundTrips + 2)
	for i, got := range answers {
		o.Expect(*got).To(Equal(answer{length: int64(6 + i)}))
	}
}

// The time of the read that sends a round trip may end long before that of the others.
func TestTimeoutOfAnotherReadIsNoTimeout(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 8)
	o.busy()
	short, cancel := context.WithTimeout(o.ctx, time.Second)
	defer cancel()
	for range 15 {
		o.read(short, 5)
	}
	waits := o.read(o.ctx, 6)
	o.Eventually(o.joined).Should(Equal(16))
	o.hold <- nil
	o.Eventually(o.begun).Should(Receive(Equal(16)))
	<-short.Done()
	o.finish(roundTrips)
	if waits.err != nil { // Otherwise it has sent the round trip itself.
		o.Expect(waits.err).To(MatchError(failure.ErrBusy))
	}
}
