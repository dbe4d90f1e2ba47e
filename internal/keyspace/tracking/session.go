// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tracking

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

const (
	// maxReads is how many keys are read in one round trip, and readSpacing the time between two full round trips. So
	// ten thousand keys that change at the same moment, as by FLUSHALL, are read within about a second.
	maxReads    = 256
	readSpacing = 25 * time.Millisecond
)

var (
	errUnanswered = errors.New("the server did not reply to a command in time")
	errUnexpected = errors.New("the server sent an unexpected reply")
	errUnasked    = errors.New("the server sends invalidations that nobody asked for")
)

// readCommands are the commands that read the length of a key, by the class of the key.
var readCommands = map[verify.Class]string{
	verify.ClassList: "llen", verify.ClassStream: "xlen", verify.ClassSortedSet: "zcard", verify.ClassSet: "scard",
	verify.ClassHash: "hlen",
}

// session keeps the keys of a tracker armed on one connection until the connection ends. One goroutine receives and
// another one sends.
type session struct {
	tracker *Tracker
	conn    *connection.Tracking

	begun time.Time
	// received is when something was last received, in nanoseconds since begun.
	received atomic.Int64
	// answered has a token when there is no command without a reply any more.
	answered chan struct{}

	mu sync.Mutex
	// inFlight are the keys whose reads have no reply yet, in the order of the replies. A PING has the key notARead.
	inFlight []Key
}

// notARead stands for a PING or an ASKING among the reads.
var notARead = Key{}

func newSession(t *Tracker, conn *connection.Tracking) *session {
	return &session{
		tracker: t, conn: conn, begun: time.Now(), answered: make(chan struct{}, 1),
	}
}

// run receives and sends until the connection or ctx ends, and returns why it ended.
func (s *session) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(ctx, s.conn.Close)()

	var receiver sync.WaitGroup
	receiver.Go(func() { end(s.receive()) })
	end(s.send(ctx))
	s.conn.Close()
	receiver.Wait()
	return context.Cause(ctx)
}

// receive handles what the server sends until the connection ends. It waits for nothing else.
func (s *session) receive() error {
	for {
		reply, err := s.conn.Receive(s.tracker.timing.PingAfter + s.tracker.timing.AnswerWithin)
		if err != nil {
			return err
		}
		s.received.Store(int64(time.Since(s.begun)))
		if push, ok := reply.(resp.Push); ok {
			err = s.told(push)
		} else {
			err = s.answer(reply)
		}
		if err != nil {
			return err
		}
	}
}

// told handles a push message. Messages of other kinds count as invalidations that nobody asked for.
func (s *session) told(push resp.Push) error {
	const kinds = 2
	if len(push) != kinds || push[0] != any("invalidate") {
		return s.countUnasked(1)
	}
	if push[1] == nil {
		return s.changed(s.tracker.keys.changedAll(), 1)
	}
	names, _ := push[1].([]any)
	asked := 0
	for _, each := range names {
		if name, ok := each.(string); ok && s.tracker.keys.changed(name) {
			asked++
		}
	}
	return s.changed(asked > 0, max(len(names), 1)-asked)
}

// changed records a message: whether it was about an armed key, and how many of its names were not.
func (s *session) changed(asked bool, unasked int) error {
	s.tracker.invalidated()
	if asked {
		s.tracker.prove()
	}
	return s.countUnasked(unasked)
}

func (s *session) countUnasked(n int) error {
	if n > 0 && !s.tracker.strays.AllowN(time.Now(), n) {
		return errUnasked
	}
	return nil
}

// answer handles the reply to the oldest command in flight. The next commands are chosen after that: if the read was
// rejected, they depend on when it is repeated.
func (s *session) answer(reply any) error {
	key, last, err := s.takeAnswered()
	if err != nil {
		return err
	}
	if last {
		defer func() { s.answered <- struct{}{} }()
	}
	rejection, rejected := reply.(resp.Error)
	length, isLength := reply.(int64)
	switch {
	case rejected:
		return s.rejected(key, rejection)
	case key == notARead:
		return nil
	case !isLength || length < 0:
		return errUnexpected
	}
	s.tracker.keys.read(key, length)
	return nil
}

// takeAnswered removes the oldest command in flight, and reports whether it is the last one.
func (s *session) takeAnswered() (key Key, last bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.inFlight) == 0 {
		return Key{}, false, errUnexpected
	}
	key = s.inFlight[0]
	s.inFlight = s.inFlight[1:]
	return key, len(s.inFlight) == 0, nil
}

// rejected handles an error reply. A read that is rejected is not tracked; the others are.
func (s *session) rejected(key Key, reply resp.Error) error {
	cause := s.conn.Refused(reply)
	if cause.Reason == failure.ReasonAuthFailed {
		return cause
	}
	if key == notARead {
		return nil
	}
	after := s.tracker.timing.ForbiddenRetry
	if cause.Reason == failure.ReasonUnreachable || failure.IsRedirection(reply) { // The server may be loading its data, for example.
		after = s.tracker.timing.RefusedRetry
	}
	s.tracker.keys.refuse(key, time.Now().Add(after))
	return nil
}

// send sends reads and PINGs until the connection ends. It sends the next ones when all others have a reply.
func (s *session) send(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		commands, wait := s.next(time.Now())
		if len(commands) > 0 {
			if err := s.conn.Send(commands...); err != nil {
				return err
			}
			if err := s.await(ctx, len(commands)); err != nil {
				return err
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.tracker.keys.due.Filled():
		case <-timer.C:
		}
	}
}

// next returns the commands to send now, which are then in flight, or how long to wait for a key that is due.
func (s *session) next(now time.Time) (commands [][]string, wait time.Duration) {
	retryAt := s.tracker.keys.retry(now)
	keys := s.tracker.keys.take(maxReads)
	pingAt := s.begun.Add(time.Duration(s.received.Load()) + s.tracker.timing.PingAfter)
	if len(keys) == 0 && !now.Before(pingAt) {
		keys = []Key{notARead}
	}
	var inFlight []Key
	for _, key := range keys {
		switch {
		case key == notARead:
			commands = append(commands, []string{"ping"})
		case key.Asking:
			commands = append(commands, []string{"asking"})
			inFlight = append(inFlight, notARead)
			fallthrough
		default:
			commands = append(commands, []string{readCommands[key.Class], key.Name})
		}
		inFlight = append(inFlight, key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight = inFlight
	if !retryAt.IsZero() && retryAt.Before(pingAt) {
		return commands, retryAt.Sub(now)
	}
	return commands, pingAt.Sub(now)
}

// await waits for the replies to the commands in flight, and after a full round trip also for the spacing.
func (s *session) await(ctx context.Context, commands int) error {
	overdue := time.NewTimer(s.tracker.timing.AnswerWithin)
	defer overdue.Stop()
	var spacing <-chan time.Time
	if commands >= maxReads { // A key of a moving slot takes two.
		spacing = time.After(readSpacing)
	}
	for answered := s.answered; answered != nil || spacing != nil; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-overdue.C:
			return errUnanswered
		case <-answered:
			answered = nil
		case <-spacing:
			spacing = nil
		}
	}
	return nil
}
