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

	"miracle.dev/scaledjob-operator/internal/redisconn"
)

// maxChannels is how many channels one SUBSCRIBE or UNSUBSCRIBE names. Some managed
// servers refuse commands with more than a few thousand arguments.
const maxChannels = 256

var (
	errNoAnswer   = errors.New("the server left a command unanswered")
	errUnexpected = errors.New("the server answered something that was not asked for")
)

// sessionTiming holds the intervals that tests shorten.
type sessionTiming struct {
	pingAfter    time.Duration // of silence
	answerWithin time.Duration // after which the connection is considered dead
	refusedRetry time.Duration // until a channel is tried again that the server did not permit
	busyRetry    time.Duration // until a channel is tried again that the server refused for another reason
}

func productionSessionTiming() sessionTiming {
	return sessionTiming{
		pingAfter:    5 * time.Second,
		answerWithin: 10 * time.Second,
		refusedRetry: time.Minute,
		busyRetry:    time.Second,
	}
}

// verb is a command of a session.
type verb string

const (
	ping        verb = "ping"
	subscribe   verb = "subscribe"
	unsubscribe verb = "unsubscribe"
)

// command is a command that was sent and is not answered yet. There is one at a time, so
// every answer is an answer to it.
type command struct {
	verb     verb
	channels []string
	waiting  map[string]struct{} // the channels whose confirmation is still to come
	sent     time.Time
}

// session keeps one connection subscribed to the channels of an index, until it ends.
// One goroutine receives, another one sends.
type session[K comparable] struct {
	index  *index[K]
	mark   func(id K, cause Cause)
	timing sessionTiming
	pubSub *redisconn.PubSub
	// confirmed is called at the first confirmation.
	confirmed func()

	// received is when the last bytes came, in nanoseconds since 1970.
	received atomic.Int64

	mu       sync.Mutex
	inFlight *command
	// halves are parts of a SUBSCRIBE that was refused as a whole.
	halves [][]string
	once   sync.Once
}

// run receives and sends until the connection or ctx ends, and returns why.
func (s *session[K]) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(ctx, s.pubSub.Close)()
	// Opening the connection sent a PING.
	s.inFlight = &command{verb: ping, sent: time.Now()}
	s.received.Store(time.Now().UnixNano())

	var receiver sync.WaitGroup
	receiver.Go(func() { end(s.receive()) })
	end(s.send(ctx))
	s.pubSub.Close()
	receiver.Wait()
	return context.Cause(ctx)
}

// receive handles what the server sends until the first error that is not a reply.
func (s *session[K]) receive() error {
	for {
		message, err := s.pubSub.Receive(s.timing.pingAfter + s.timing.answerWithin)
		if err != nil && !redisconn.IsReply(err) {
			return err
		}
		s.received.Store(time.Now().UnixNano())
		if err := s.handle(message, err); err != nil {
			return err
		}
	}
}

func (s *session[K]) handle(message any, reply error) error {
	if reply != nil {
		return s.answerError(reply)
	}
	switch m := message.(type) {
	case *redis.Message:
		if cause := causeOf(m.Payload); cause != 0 {
			s.index.each(m.Channel, func(id K) { s.mark(id, cause) })
		}
		return nil
	case *redis.Subscription:
		return s.answerConfirmation(verb(m.Kind), m.Channel)
	case *redis.Pong:
		return s.answerPong()
	default:
		return errUnexpected
	}
}

func (s *session[K]) answerPong() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight == nil || s.inFlight.verb != ping {
		return errUnexpected
	}
	s.answered()
	return nil
}

func (s *session[K]) answerConfirmation(kind verb, name string) error {
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
		s.index.confirmSubscribed(name)
		s.index.each(name, func(id K) { s.mark(id, Confirmed) })
		s.once.Do(s.confirmed)
	} else {
		s.index.confirmUnsubscribed(name)
	}
	if len(s.inFlight.waiting) == 0 {
		s.answered()
	}
	return nil
}

// answerError handles an error reply. It refuses the command as a whole.
func (s *session[K]) answerError(reply error) error {
	reason := redisconn.Classify(reply).Reason
	if reason == redisconn.ReasonAuthFailed {
		return reply
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.inFlight == nil || s.inFlight.verb == unsubscribe:
		return fmt.Errorf("%w: %w", errUnexpected, reply)
	case s.inFlight.verb == subscribe:
		s.refused(s.inFlight.channels, reason == redisconn.ReasonPermissionDenied)
	}
	s.answered()
	return nil
}

// refused deals with channels whose SUBSCRIBE was refused. One forbidden channel makes
// the server refuse them all, so halves are tried until it is alone.
func (s *session[K]) refused(channels []string, forbidden bool) {
	if forbidden && len(channels) > 1 {
		middle := len(channels) / 2
		s.halves = append(s.halves, channels[:middle], channels[middle:])
		return
	}
	retryAt := time.Now().Add(s.timing.busyRetry)
	if forbidden {
		retryAt = time.Now().Add(s.timing.refusedRetry)
	}
	for _, name := range channels {
		s.index.refuse(name, retryAt)
	}
}

// answered makes room for the next command.
func (s *session[K]) answered() {
	s.inFlight = nil
	notify(s.index.changed)
}

// send sends commands, one after the other is answered, until ctx ends or the
// connection fails.
func (s *session[K]) send(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, wait, err := s.next(time.Now())
		if err == nil && next != nil {
			err = s.write(next)
		}
		if err != nil {
			return err
		}
		if next != nil {
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.index.changed:
		case <-timer.C:
		}
	}
}

// next returns the next command to send, or how long to wait for a reason to send one.
func (s *session[K]) next(now time.Time) (*command, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight != nil {
		wait := s.inFlight.sent.Add(s.timing.answerWithin).Sub(now)
		if wait <= 0 {
			return nil, 0, errNoAnswer
		}
		return nil, wait, nil
	}
	retryAt := s.index.retry(now)
	silentAt := time.Unix(0, s.received.Load()).Add(s.timing.pingAfter)
	next := &command{sent: now}
	if next.channels = s.takeHalf(); next.channels != nil {
		next.verb = subscribe
	} else if next.channels = s.index.takeWanted(maxChannels); next.channels != nil {
		next.verb = subscribe
	} else if next.channels = s.index.takeUnwanted(maxChannels); next.channels != nil {
		next.verb = unsubscribe
	} else if !now.Before(silentAt) {
		next.verb = ping
	} else {
		if !retryAt.IsZero() && retryAt.Before(silentAt) {
			return nil, retryAt.Sub(now), nil
		}
		return nil, silentAt.Sub(now), nil
	}
	next.waiting = make(map[string]struct{}, len(next.channels))
	for _, name := range next.channels {
		next.waiting[name] = struct{}{}
	}
	s.inFlight = next
	return next, 0, nil
}

func (s *session[K]) takeHalf() []string {
	last := len(s.halves) - 1
	if last < 0 {
		return nil
	}
	half := s.halves[last]
	s.halves = s.halves[:last]
	return half
}

// write sends a command. No lock is held: the network may be slow.
func (s *session[K]) write(c *command) error {
	switch c.verb {
	case subscribe:
		return s.pubSub.Subscribe(c.channels...)
	case unsubscribe:
		return s.pubSub.Unsubscribe(c.channels...)
	default:
		return s.pubSub.Ping()
	}
}
