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

// maxChannels is the maximum number of channels in one command. Some servers limit the number of arguments, and a
// rejected command must be split.
const maxChannels = 256

var (
	errUnanswered = errors.New("the server did not reply to a command in time")
	errUnexpected = errors.New("the server sent an unexpected reply")
	errFlooded    = errors.New("the server sends too many notifications that nobody asked for")
)

// timing has the intervals of a session, which tests shorten.
type timing struct {
	pingAfter      time.Duration // time without messages before a PING
	answerWithin   time.Duration // maximum time for a reply; then the connection is closed
	forbiddenRetry time.Duration // wait before a channel that the user may not subscribe to is retried
	refusedRetry   time.Duration // wait before a channel that was rejected for another reason is retried
	restFor        time.Duration // how long a channel with too many events is not subscribed to at most
}

// defaultTiming returns the intervals of the operator.
func defaultTiming() timing {
	return timing{
		pingAfter:      5 * time.Second,
		answerWithin:   10 * time.Second,
		forbiddenRetry: failure.RejectedRetry,
		refusedRetry:   time.Second,
		restFor:        time.Minute,
	}
}

// session keeps one connection subscribed to the channels of its supervisor until the connection ends. One goroutine
// receives and another one sends.
type session struct {
	// supervisor receives the first confirmation and all messages. It has one session at a time.
	supervisor *supervisor
	// pubSub is the connection. Opening it has sent a PING, whose reply is still to come.
	pubSub *connection.PubSub
	// resumes means that the previous connection to the same server was confirmed.
	resumes bool

	begun time.Time
	// received is when something was last received, in nanoseconds since begun. It is a monotonic time.
	received atomic.Int64

	mu sync.Mutex
	// inFlight is the command that has no complete reply yet. There is at most one, so every reply belongs to it.
	inFlight *command
	// parts are the remaining parts of commands that were rejected as a whole.
	parts [][]string
	// confirmed is true after the first confirmation.
	confirmed bool
	// refused is true after the first error reply to a SUBSCRIBE.
	refused bool
}

// command is a command that was sent to the server.
type command struct {
	verb     verb
	channels []string
	// waiting are the channels that the server has not confirmed yet.
	waiting map[string]struct{}
	sent    time.Time
}

// verb is the name of a command. The values are those in the confirmations.
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

// run receives and sends until the connection or ctx ends, and returns why it ended. Call it once. Afterwards,
// confirmed says whether the server has confirmed a subscription.
func (s *session) run(ctx context.Context) error {
	defer s.supervisor.set.reset()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(ctx, s.pubSub.Close)()
	s.begun = time.Now()
	s.inFlight = newCommand(ping, nil) // OpenPubSub has sent it.

	var receiver sync.WaitGroup
	receiver.Go(func() { end(s.receive(ctx)) })
	end(s.send(ctx))
	s.pubSub.Close()
	receiver.Wait()
	return context.Cause(ctx)
}

// receive handles the messages of the server until the connection ends. It does little work per message and waits for
// nothing else, so that the output buffer of the server does not fill up.
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
		return s.supervisor.event(m.Channel, m.Payload)
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

// answerError handles an error reply. The connection can still be used, unless the credentials were rejected.
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
		s.splitRefused(s.inFlight.channels, reason == failure.ReasonPermissionDenied)
		if !s.refused {
			s.refused = true
			s.supervisor.log.Info("Redis rejects subscriptions to some channels", "cause", reply.Error())
		}
	}
	s.answered()
	return nil
}

// splitRefused handles a SUBSCRIBE that was rejected. One forbidden channel makes the server reject the whole command,
// so its halves are tried until the channel is alone.
func (s *session) splitRefused(channels []string, forbidden bool) {
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

// answered allows the next command.
func (s *session) answered() {
	s.inFlight = nil
	s.supervisor.set.changed.Set()
}

// send sends one command after the other until the connection ends.
func (s *session) send(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
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

// next returns the next command to send, which is then in flight, or how long to wait. The wait is not positive if the
// reply to the last command is overdue.
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

// write sends a command. No lock is held, because the network may be slow.
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
