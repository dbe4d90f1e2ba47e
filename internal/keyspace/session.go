// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// maxChannels is how many channels one command names: few enough for servers that limit
// the arguments, and for a refused command to be taken apart.
const maxChannels = 256

var (
	errUnanswered = errors.New("the server left a command unanswered")
	errUnexpected = errors.New("the server sent an answer that does not fit")
)

// timing holds the intervals of a session, which tests shorten.
type timing struct {
	pingAfter      time.Duration // of silence
	answerWithin   time.Duration // after which a connection counts as dead
	forbiddenRetry time.Duration // until channels the user may not subscribe to are tried again
	refusedRetry   time.Duration // until channels that were refused for another reason are
}

// defaultTiming returns the intervals of the operator.
func defaultTiming() timing {
	return timing{
		pingAfter:      5 * time.Second,
		answerWithin:   10 * time.Second,
		forbiddenRetry: time.Minute,
		refusedRetry:   time.Second,
	}
}

// session keeps one connection subscribed to the channels of its supervisor's set until the connection ends. One goroutine
// receives and another one sends.
type session struct {
	// supervisor is told of the first confirmation and of each message. It has one session at a time.
	supervisor *supervisor
	// pubSub is the connection. A PING was sent on it and is not answered yet.
	pubSub *connection.PubSub
	// resumes says that a connection to the same server was confirmed before this one.
	resumes bool

	begun time.Time
	// received is when something came last, in nanoseconds since begun. Unlike
	// a time of day, it does not jump.
	received atomic.Int64

	mu sync.Mutex
	// inFlight is the command that is not answered yet. There is one at a time, so that
	// every answer belongs to it.
	inFlight *command
	// parts are left of commands that were refused as a whole.
	parts [][]string
	// confirmed is set at the first confirmation.
	confirmed bool
	// refusal is the first error reply to a SUBSCRIBE.
	refusal error
}

// command is something sent to the server.
type command struct {
	verb     verb
	channels []string
	// waiting are the channels that the server has not confirmed yet.
	waiting map[string]struct{}
	sent    time.Time
}

// verb is what a command does. The values are the kinds of confirmations.
type verb string

const (
	ping        verb = "ping"
	subscribe   verb = "subscribe"
	unsubscribe verb = "unsubscribe"
)

func newCommand(v verb, channels []string) *command {
	c := &command{verb: v, channels: channels, waiting: make(map[string]struct{}, len(channels)), sent: time.Now()}
	for _, name := range channels {
		c.waiting[name] = struct{}{}
	}
	return c
}

// run receives and sends until the connection or ctx ends, and returns why it ended. It may be called once. After it, confirmed
// says whether the server confirmed anything.
func (s *session) run(ctx context.Context) error {
	defer s.supervisor.set.reset()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(ctx, s.pubSub.Close)()
	s.begun = time.Now()
	s.inFlight = newCommand(ping, nil) // Opening the connection sent it.

	var receiver sync.WaitGroup
	receiver.Go(func() { end(s.receive(ctx)) })
	end(s.send(ctx))
	s.pubSub.Close()
	receiver.Wait()
	return context.Cause(ctx)
}

// receive handles what the server sends until the connection ends. It does little for
// each message and waits for nothing else, so that the server's buffer stays empty.
func (s *session) receive(ctx context.Context) error {
	for {
		message, err := s.pubSub.Receive(ctx, s.supervisor.timing.pingAfter+s.supervisor.timing.answerWithin)
		switch {
		case failure.IsReply(err):
			err = s.answerError(err)
		case err == nil:
			err = s.answer(message)
		}
		if err != nil {
			return err
		}
		s.received.Store(int64(time.Since(s.begun)))
	}
}

func (s *session) answer(message any) error {
	switch m := message.(type) {
	case *redis.Message:
		s.supervisor.event(m.Channel, m.Payload)
		return nil
	case *redis.Subscription:
		return s.answerConfirmation(verb(m.Kind), m.Channel)
	case *redis.Pong:
		return s.answerPong()
	default:
		return errUnexpected
	}
}

func (s *session) answerPong() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight == nil || s.inFlight.verb != ping {
		return errUnexpected
	}
	s.answered()
	return nil
}

func (s *session) answerConfirmation(kind verb, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight == nil || s.inFlight.verb != kind {
		return errUnexpected
	}
	if _, ok := s.inFlight.waiting[name]; !ok {
		return errUnexpected
	}
	delete(s.inFlight.waiting, name)
	if kind == subscribe {
		if !s.confirmed {
			s.confirmed = true
			s.supervisor.begin(s.resumes)
		}
		s.supervisor.set.subscribed(name)
	} else {
		s.supervisor.set.unsubscribed(name)
	}
	if len(s.inFlight.waiting) == 0 {
		s.answered()
	}
	return nil
}

// answerError handles an error reply. The connection is good, but for refused credentials.
func (s *session) answerError(reply error) error {
	reason := failure.Classify(reply).Reason
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case reason == failure.ReasonAuthFailed:
		return reply
	case s.inFlight == nil || s.inFlight.verb == unsubscribe:
		return fmt.Errorf("%w: %w", errUnexpected, reply)
	case s.inFlight.verb == subscribe:
		s.refuse(s.inFlight.channels, reason == failure.ReasonPermissionDenied)
		if s.refusal == nil {
			s.refusal = reply
		}
	}
	s.answered()
	return nil
}

// refuse deals with a refused SUBSCRIBE. One forbidden channel makes the server refuse
// them all, so the halves are tried until it is alone.
func (s *session) refuse(channels []string, forbidden bool) {
	if forbidden && len(channels) > 1 {
		middle := len(channels) / 2
		s.parts = append(s.parts, channels[:middle], channels[middle:])
		return
	}
	retryAt := time.Now().Add(s.supervisor.timing.refusedRetry)
	if forbidden {
		retryAt = time.Now().Add(s.supervisor.timing.forbiddenRetry)
	}
	s.supervisor.set.refused(channels, forbidden, retryAt)
}

// answered makes room for the next command.
func (s *session) answered() {
	s.inFlight = nil
	s.supervisor.set.changed.Set()
}

// send sends one command after the other until the connection ends.
func (s *session) send(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var reported progress
	for {
		reported = s.report(reported)
		next, wait := s.next(time.Now())
		if next != nil {
			if err := s.write(ctx, next); err != nil {
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
		case <-s.supervisor.set.changed:
		case <-timer.C:
		}
	}
}

// next returns the next command to send, or how long to wait for a reason to send one.
// The command is then in flight. No time is left if the last one should have been answered.
func (s *session) next(now time.Time) (*command, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight != nil {
		return nil, s.inFlight.sent.Add(s.supervisor.timing.answerWithin).Sub(now)
	}
	due := s.begun.Add(time.Duration(s.received.Load()) + s.supervisor.timing.pingAfter)
	silent := !now.Before(due)
	if retryAt := s.supervisor.set.retry(now); !retryAt.IsZero() && retryAt.Before(due) {
		due = retryAt
	}
	if channels := s.toSubscribe(); len(channels) > 0 {
		s.inFlight = newCommand(subscribe, channels)
	} else if channels := s.supervisor.set.takeUnwanted(maxChannels); len(channels) > 0 {
		s.inFlight = newCommand(unsubscribe, channels)
	} else if silent {
		s.inFlight = newCommand(ping, nil)
	}
	return s.inFlight, due.Sub(now)
}

func (s *session) toSubscribe() []string {
	if last := len(s.parts) - 1; last >= 0 {
		part := s.parts[last]
		s.parts = s.parts[:last]
		return part
	}
	return s.supervisor.set.takeWanted(maxChannels)
}

// write sends a command. No lock is held: the network may be slow.
func (s *session) write(ctx context.Context, c *command) error {
	switch c.verb {
	case subscribe:
		return s.pubSub.Subscribe(ctx, c.channels...)
	case unsubscribe:
		return s.pubSub.Unsubscribe(ctx, c.channels...)
	default:
		return s.pubSub.Ping(ctx)
	}
}

// progress is what has been logged about a session.
type progress struct {
	confirmed, refused bool
}

// report logs what happened for the first time since the last report.
func (s *session) report(last progress) progress {
	s.mu.Lock()
	refusal := s.refusal
	now := progress{confirmed: s.confirmed, refused: refusal != nil}
	s.mu.Unlock()
	if now.confirmed && !last.confirmed {
		s.supervisor.log.Info("Subscribed to keyspace notifications")
	}
	if now.refused && !last.refused {
		s.supervisor.log.Info("Redis refuses subscriptions to some channels", "cause", refusal.Error())
	}
	return now
}
