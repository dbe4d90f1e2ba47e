// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

const (
	// maxBatch is the maximum number of channels in one command, and of keys that are read at once. Some servers limit the
	// number of arguments, and a rejected command must be split.
	maxBatch = 256
	// batchSpacing is the time between two full batches of reads. So ten thousand keys that change at the same moment, as
	// by FLUSHALL, are read within about a second.
	batchSpacing = 25 * time.Millisecond
)

var (
	errUnanswered = errors.New("the server did not reply to a command in time")
	errUnexpected = errors.New("the server sent an unexpected reply")
	// errOldProtocol is why keys can't be tracked on a connection.
	errOldProtocol = errors.New("the server does not speak RESP3, or the user may not select the database")
)

// session is the use of one connection. One goroutine receives and another one sends. The lock of the node guards it.
type session struct {
	node *Node
	wire *connection.Wire
	// resumes means that the previous connection to the same server was confirmed.
	resumes bool

	begun, received time.Time
	// flight are the commands that have no complete reply yet, the oldest first. The next reply is awaited since
	// waitsSince.
	flight     []*command
	waitsSince time.Time
	// halves are the parts of commands that were rejected as a whole.
	halves [][]string
	// confirmed is true after the first confirmation of a subscription.
	confirmed bool
	tracking  trackingState
	// readAt is when keys may be read again after a full batch.
	readAt time.Time
	// news is what to log.
	news []news
}

type trackingState int

const (
	notTracking trackingState = iota
	switching                 // CLIENT TRACKING was sent and has no reply yet
	tracking
	impossible // on this connection
)

type news struct {
	text  string
	cause error
}

func newSession(n *Node, wire *connection.Wire, resumes bool) *session {
	now := time.Now()
	return &session{node: n, wire: wire, resumes: resumes, begun: now, received: now}
}

// run sends and receives until the connection or ctx ends, and returns why it ended.
func (s *session) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(ctx, s.wire.Close)()
	var receiver sync.WaitGroup
	receiver.Go(func() { end(s.receive()) })
	end(s.send(ctx))
	s.wire.Close()
	receiver.Wait()
	return context.Cause(ctx)
}

// send sends what is due until the connection ends.
func (s *session) send(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		commands, wait := s.next(time.Now())
		if len(commands) > 0 {
			if err := s.wire.Send(commands...); err != nil {
				return err
			}
			continue
		}
		if wait <= 0 {
			return errUnanswered
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.node.changed:
		case <-timer.C:
		}
		s.report()
	}
}

// report logs what is new. The receiver does not, because a log may be slow.
func (s *session) report() {
	s.node.mu.Lock()
	all := s.news
	s.news = nil
	s.node.mu.Unlock()
	for _, each := range all {
		if each.cause == nil {
			s.node.options.Log.Info(each.text)
		} else {
			s.node.options.Log.Info(each.text, "cause", each.cause.Error())
		}
	}
}

// receive handles what the server sends until the connection ends. It does little work for each message and waits for
// nothing else, so that the output buffer of the server does not fill up.
func (s *session) receive() error {
	timing := s.node.options.Timing
	for {
		message, err := s.wire.Receive(timing.SubscriberPingAfter + timing.AnswerWithin)
		if err != nil {
			return err
		}
		if err := s.handle(message); err != nil {
			return err
		}
	}
}

func (s *session) handle(message any) error {
	rejection, rejected := message.(resp.Error)
	var cause *failure.Error
	if rejected { // Without the lock, because it may mark the server down.
		if cause = s.wire.Refused(rejection); cause.Reason == failure.ReasonAuthFailed {
			return cause
		}
	}
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	s.received = time.Now()
	if push, is := pushOf(message); is {
		return s.pushed(push)
	}
	return s.answered(message, cause)
}

// pushOf returns a message that is no reply. Over RESP2 it is an array that begins with its kind.
func pushOf(message any) (push []any, is bool) {
	switch message := message.(type) {
	case resp.Push:
		return message, true
	case []any:
		return message, len(message) > 0 && slices.Contains([]any{"message", subscribe, unsubscribe, "pong"}, message[0])
	default:
		return nil, false
	}
}

// pushed handles a message that is no reply.
func (s *session) pushed(push []any) error {
	text := func(i int) string {
		if i >= len(push) {
			return ""
		}
		text, _ := push[i].(string)
		return text
	}
	switch kind := text(0); {
	case kind == "message" && len(push) == len([]string{"message", "channel", "payload"}):
		return s.node.event(text(1), text(2)) //nolint:mnd // The channel and the payload.
	case kind == "invalidate" && len(push) == len([]string{"invalidate", "keys"}):
		return s.node.invalidate(push[1])
	case kind == subscribe || kind == unsubscribe:
		return s.confirmation(kind, text(1))
	case kind == "pong":
		return s.answered(kind, nil)
	default:
		return s.node.unsolicited(nil, 1)
	}
}

// confirmation handles the confirmation of a subscription or of its end.
func (s *session) confirmation(kind, channel string) error {
	if len(s.flight) == 0 || s.flight[0].verb != kind {
		return errUnexpected
	}
	head := s.flight[0]
	name := channel[min(len(s.node.prefix), len(channel)):]
	if _, awaited := head.waiting[name]; !awaited || s.node.prefix+name != channel {
		return errUnexpected
	}
	delete(head.waiting, name)
	s.waitsSince = s.received
	if kind == subscribe {
		s.confirmFirst()
		s.node.subscribed(name)
	} else {
		s.node.unsubscribed(name)
	}
	if len(head.waiting) == 0 {
		s.pop()
	}
	return nil
}

// confirmFirst records the first confirmation. If the session resumes one with the same server, its evidence stays
// valid.
func (s *session) confirmFirst() {
	if s.confirmed {
		return
	}
	s.confirmed = true
	if !s.resumes {
		s.node.evidence.Begin()
	}
	s.node.options.Recorder.Subscribed(s.node.options.Name, s.node.options.Database, true)
	s.node.inspect.Set()
	s.note("Subscribed to keyspace notifications", nil)
}

func (s *session) note(text string, cause error) {
	s.news = append(s.news, news{text, cause})
	s.node.changed.Set()
}

// answered handles the reply to the oldest command in flight. rejection is not nil for an error reply.
func (s *session) answered(reply any, rejection *failure.Error) error {
	if len(s.flight) == 0 {
		return errUnexpected
	}
	head := s.flight[0]
	s.pop()
	switch head.verb {
	case subscribe:
		if rejection == nil || len(head.waiting) < len(head.names) {
			return errUnexpected
		}
		s.split(head.names, rejection)
		return nil
	case unsubscribe:
		return fmt.Errorf("%w to UNSUBSCRIBE: %v", errUnexpected, reply)
	case read:
		return s.length(head.names[0], reply, rejection)
	case trackOn:
		s.trackingAnswered(rejection)
	}
	return nil
}

// pop removes the oldest command in flight.
func (s *session) pop() {
	s.waitsSince = s.received
	if s.flight = s.flight[1:]; len(s.flight) == 0 {
		s.node.changed.Set()
	}
}

// split handles a SUBSCRIBE that was rejected. One forbidden channel makes the server reject the whole command, so its
// halves are tried until the channel is alone.
func (s *session) split(names []string, cause *failure.Error) {
	forbidden := cause.Reason == failure.ReasonPermissionDenied
	if forbidden && len(names) > 1 {
		middle := len(names) / 2 //nolint:mnd // Halves.
		s.halves = append(s.halves, names[:middle], names[middle:])
		return
	}
	s.node.deny(names, forbidden)
	s.note("Redis rejects subscriptions to some channels", cause)
}

// length handles the reply to a read.
func (s *session) length(name string, reply any, rejection *failure.Error) error {
	length, is := reply.(int64)
	switch {
	case rejection != nil && rejection.Reason == failure.ReasonWrongType:
		s.node.lengthRead(name, unknownLength)
	case rejection != nil && (rejection.Reason == failure.ReasonUnreachable || failure.IsRedirection(rejection)):
		s.node.refuse(name, s.node.options.Timing.RefusedRetry) // The server may be loading its data, for example.
	case rejection != nil:
		s.node.refuse(name, s.node.options.Timing.ForbiddenRetry)
	case !is || length < 0:
		return errUnexpected
	default:
		s.node.lengthRead(name, length)
	}
	return nil
}

// trackingAnswered handles the reply to CLIENT TRACKING ON.
func (s *session) trackingAnswered(rejection *failure.Error) {
	if rejection != nil {
		s.node.options.Recorder.Ended(s.node.options.Name, string(rejection.Reason))
		after := s.node.options.Timing.RefusedRetry // A script may block the server, for example.
		if failure.IsRefusal(rejection) {
			after = s.node.options.Timing.ForbiddenRetry
			s.note("Redis does not track keys", rejection)
		}
		s.tracking, s.node.trackAt = notTracking, time.Now().Add(after)
		return
	}
	s.tracking = tracking
	s.node.track()
	s.note("Tracking keys", nil)
}
