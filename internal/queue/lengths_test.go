// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// heldTrips are the round trips to a server whose lists have as many messages as their names say. Each is held until it
// is let go.
type heldTrips struct {
	redis.Hook

	begun chan int // how many commands it has
	hold  chan error
}

func (t heldTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t heldTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (t heldTrips) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		t.begun <- len(commands)
		if err := <-t.hold; err != nil {
			panic(err)
		}
		for _, command := range commands {
			reply := fmt.Sprintf(":%v\r\n", command.Args()[1])
			if command.Args()[1] == text {
				reply = "-WRONGTYPE not a list\r\n"
			}
			command.(*redis.RawCmd).SetVal([]byte(reply))
		}
		return ctx.Err()
	}
}

// text is a key that is not a list.
const text = "text"

// lengthReader reads the lengths of lists.
type lengthReader struct {
	*WithT
	heldTrips

	client  connection.Client
	lengths lengths
	ctx     context.Context
	reads   sync.WaitGroup
}

// withReader runs a test with a lengthReader.
func withReader(t *testing.T, test func(o *lengthReader)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		const most = 100 // No test has as many reads.
		o := &lengthReader{
			WithT: NewWithT(t), heldTrips: heldTrips{begun: make(chan int, most), hold: make(chan error, most)},
			client: connection.Client{Client: redis.NewClient(&redis.Options{
				MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}, // It would look up a name.
			})},
			// So long that all tests but one decide when round trips begin.
			lengths: lengths{gather: time.Hour},
		}
		defer func() {
			close(o.hold) // Nothing is held any longer if the test has failed.
			o.reads.Wait()
			o.Expect(o.client.Close()).To(Succeed())
		}()
		o.client.AddHook(o.heldTrips)
		var cancel context.CancelFunc
		o.ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		test(o)
	})
}

// answer is what a read has returned.
type answer struct {
	length int64
	err    error
}

// read begins to read the length of the list with so many messages.
func (o *lengthReader) read(ctx context.Context, messages int) *answer {
	return o.readKey(ctx, strconv.Itoa(messages))
}

// readKey begins to read the length of a list.
func (o *lengthReader) readKey(ctx context.Context, key string) *answer {
	got := &answer{length: -1}
	o.reads.Go(func() {
		defer func() {
			if cause := recover(); cause != nil {
				got.err = fmt.Errorf("%v", cause)
			}
		}()
		got.length, got.err = o.lengths.read(ctx, o.client, key)
	})
	return got
}

// busy has all round trips under way that there may be, for lists of 0 messages and more.
func (o *lengthReader) busy() (answers []*answer) {
	for messages := range roundTrips {
		answers = append(answers, o.read(o.ctx, messages))
		o.expectBegun(1)
	}
	return answers
}

// expectBegun sees that one round trip has begun, and with how many commands.
func (o *lengthReader) expectBegun(commands int) {
	synctest.Wait()
	o.Expect(o.begun).To(Receive(Equal(commands)))
	o.Expect(o.begun).NotTo(Receive())
}

// expectPending sees how many reads wait for the next round trip, which has not begun.
func (o *lengthReader) expectPending(reads int) {
	synctest.Wait()
	o.lengths.mu.Lock()
	defer o.lengths.mu.Unlock()
	o.Expect(o.lengths.of[o.client].next.commands).To(HaveLen(reads))
	o.Expect(o.begun).NotTo(Receive())
}

// two has two reads wait for the next round trip. The first one waits longest, so it sends.
func (o *lengthReader) two(first context.Context) (sends, waits *answer) {
	o.busy()
	sends = o.read(first, 5)
	o.expectPending(1)
	waits = o.read(o.ctx, 6)
	o.expectPending(2)
	return sends, waits
}

// finish lets so many round trips go, and waits until all reads have ended.
func (o *lengthReader) finish(trips int) {
	for range trips {
		o.hold <- nil
	}
	o.reads.Wait()
}

func TestReadsShareARoundTrip(t *testing.T) {
	withReader(t, func(o *lengthReader) {
		const lists = 25
		answers := o.busy()
		for messages := roundTrips; messages < lists; messages++ {
			answers = append(answers, o.read(o.ctx, messages))
		}
		o.expectPending(lists - roundTrips)
		o.finish(roundTrips + 1)

		o.expectBegun(lists - roundTrips)
		for messages, got := range answers {
			o.Expect(*got).To(Equal(answer{length: int64(messages)}))
		}
		o.Expect(o.lengths.of).To(BeEmpty(), "nothing is kept")
	})
}

// A list that is none has an error of its own, and the others have their lengths.
func TestWrongTypeFailsAlone(t *testing.T) {
	withReader(t, func(o *lengthReader) {
		o.busy()
		wrong := o.readKey(o.ctx, text)
		right := o.read(o.ctx, 7)
		o.expectPending(2)
		o.finish(roundTrips + 1)

		o.Expect(wrong.err).To(MatchError(ContainSubstring("WRONGTYPE")))
		o.Expect(*right).To(Equal(answer{length: 7}))
	})
}

// Whoever gives up, whether it waits or sends, the others get their lengths.
func TestReadThatGivesUpHoldsUpNobody(t *testing.T) {
	withReader(t, func(o *lengthReader) {
		giving, giveUp := context.WithCancel(o.ctx)
		gone, stays := o.two(giving)
		giveUp()
		synctest.Wait()
		o.Expect(gone.err).To(MatchError(context.Canceled))
		o.finish(roundTrips + 1)
		o.Expect(*stays).To(Equal(answer{length: 6}))
	})
}

// The one that sends the round trip is most likely one that gives up then.
func TestSharedRoundTripOutlivesItsSender(t *testing.T) {
	withReader(t, func(o *lengthReader) {
		giving, giveUp := context.WithCancel(o.ctx)
		gone, stays := o.two(giving)
		o.hold <- nil
		o.expectBegun(2)
		giveUp()
		synctest.Wait()
		o.Expect(gone.length).To(BeEquivalentTo(-1), "it sends, which it does not give up")
		o.finish(roundTrips)
		o.Expect(*stays).To(Equal(answer{length: 6}))
	})
}

// A panic of the client library is not a length of 0 for those who share the round trip.
func TestPanicIsNoLength(t *testing.T) {
	withReader(t, func(o *lengthReader) {
		sends, waits := o.two(o.ctx)
		o.hold <- nil
		o.expectBegun(2)
		for range roundTrips - 1 {
			o.hold <- nil
		}
		synctest.Wait()
		o.hold <- fmt.Errorf("a malformed reply")
		o.reads.Wait()
		o.Expect(sends.err).To(MatchError("a malformed reply"))
		o.Expect(waits.err).To(MatchError(errUnread))
		o.Expect(o.lengths.of).To(BeEmpty())
	})
}

// A read waits neither for all round trips of others to a server that is far away, nor for long to begin its own.
func TestReadsBeginSoonIfTheServerIsFarAway(t *testing.T) {
	withReader(t, func(o *lengthReader) {
		o.lengths.gather = time.Millisecond
		o.busy()
		began := time.Now()
		answers := []*answer{o.read(o.ctx, 6)}
		o.Expect(<-o.begun).To(Equal(1), "while the others are still under way")
		answers = append(answers, o.read(o.ctx, 7))
		o.Expect(<-o.begun).To(Equal(1))
		o.Expect(time.Since(began)).To(Equal(2 * time.Millisecond))
		o.finish(roundTrips + 2)
		for i, got := range answers {
			o.Expect(*got).To(Equal(answer{length: int64(6 + i)}))
		}
	})
}

// The time of the read that sends a round trip may end long before that of the others.
func TestTimeoutOfAnotherReadIsNoTimeout(t *testing.T) {
	withReader(t, func(o *lengthReader) {
		short, cancel := context.WithTimeout(o.ctx, time.Second)
		defer cancel()
		sends, waits := o.two(short)
		o.hold <- nil
		o.expectBegun(2)
		<-time.After(2 * time.Second)
		o.finish(roundTrips)
		o.Expect(sends.err).To(MatchError(context.DeadlineExceeded))
		o.Expect(sends.err).NotTo(MatchError(failure.ErrBusy))
		o.Expect(waits.err).To(MatchError(failure.ErrBusy))
	})
}
