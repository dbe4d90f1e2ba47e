// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"time"

	"miracle.dev/scaledjob-operator/internal/moment"
)

// command is a command that was sent.
type command struct {
	verb  string
	names []string // of keys
	// waiting are the keys whose confirmation is still to come.
	waiting map[string]struct{}
}

// The verbs of commands. Those of subscriptions are also the kinds of the confirmations.
const (
	subscribe   = "subscribe"
	unsubscribe = "unsubscribe"
	read        = "read"
	asking      = "asking"
	trackOn     = "track"
	trackOff    = "untrack"
	ping        = "ping"
)

// next returns the commands to send now, which are then in flight, or how long to wait. The wait is not positive if a
// reply is overdue.
func (s *session) next(now time.Time) (commands [][]string, wait time.Duration) {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	if len(s.flight) > 0 {
		return nil, s.waitsSince.Add(s.node.options.Timing.AnswerWithin).Sub(now)
	}
	s.node.retry(now)
	s.node.resume(now)
	s.subscriptions()
	s.switchTracking(now)
	s.reads(now)
	pingAt := s.received.Add(s.pingAfter())
	if len(s.flight) == 0 && !now.Before(pingAt) {
		s.flight = append(s.flight, &command{verb: ping})
	}
	if len(s.flight) == 0 {
		return nil, max(s.nextTime(pingAt).Sub(now), time.Millisecond)
	}
	s.waitsSince = now
	for _, each := range s.flight {
		commands = append(commands, s.arguments(each))
	}
	return commands, 0
}

// pingAfter returns how long nothing may come before a PING is sent.
func (s *session) pingAfter() time.Duration {
	if s.tracking == tracking {
		return s.node.options.Timing.PingAfter
	}
	return s.node.options.Timing.SubscriberPingAfter
}

// nextTime returns when there may be something to send, at pingAt at the latest.
func (s *session) nextTime(pingAt time.Time) time.Time {
	n := s.node
	next := moment.First(pingAt, n.retryAt, n.resumeAt)
	switch {
	case n.tracks == 0 || s.tracking == impossible:
	case s.tracking == notTracking:
		next = moment.First(next, n.trackAt)
	case len(n.readQueue) > 0:
		next = moment.First(next, moment.Last(n.readQueue[0].read.due, s.readAt))
	}
	return next
}

// subscriptions adds SUBSCRIBE or UNSUBSCRIBE to the flight.
func (s *session) subscriptions() {
	if last := len(s.halves) - 1; last >= 0 {
		s.confirm(subscribe, s.halves[last])
		s.halves = s.halves[:last]
	} else if names := take(s.node.toSubscribe, subscribing); len(names) > 0 {
		s.confirm(subscribe, names)
	} else if names := take(s.node.toUnsubscribe, unsubscribing); len(names) > 0 {
		s.confirm(unsubscribe, names)
	}
}

func (s *session) confirm(verb string, names []string) {
	c := &command{verb: verb, names: names, waiting: make(map[string]struct{}, len(names))}
	for _, name := range names {
		c.waiting[name] = struct{}{}
	}
	s.flight = append(s.flight, c)
}

// switchTracking adds CLIENT TRACKING to the flight if a key is to be tracked, or if none is any longer.
func (s *session) switchTracking(now time.Time) {
	switch {
	case !s.wire.Tracks():
		if s.node.tracks > 0 && s.tracking == notTracking {
			s.tracking = impossible
			s.note("Redis does not track keys", errOldProtocol)
		}
	case s.node.tracks > 0 && s.tracking == notTracking && !now.Before(s.node.trackAt):
		s.tracking = switching
		s.flight = append(s.flight, &command{verb: trackOn})
	case s.node.tracks == 0 && s.tracking == tracking:
		s.tracking = notTracking
		s.flight = append(s.flight, &command{verb: trackOff})
	}
}

// reads adds the reads that are due to the flight.
func (s *session) reads(now time.Time) {
	if s.tracking != tracking || now.Before(s.readAt) {
		return
	}
	keys := s.node.takeDue(now)
	if len(keys) == maxBatch {
		s.readAt = now.Add(batchSpacing)
	}
	for _, k := range keys {
		if _, needed := k.interest(); needed {
			s.flight = append(s.flight, &command{verb: asking})
		}
		s.flight = append(s.flight, &command{verb: read, names: []string{k.name}})
	}
}

// arguments returns what is sent for a command.
func (s *session) arguments(c *command) []string {
	switch c.verb {
	case subscribe, unsubscribe:
		args := []string{c.verb}
		for _, name := range c.names {
			args = append(args, s.node.prefix+name)
		}
		return args
	case read:
		class, _ := s.node.keys[c.names[0]].interest()
		return []string{readCommands[class], c.names[0]}
	case trackOn:
		return []string{"client", "tracking", "on"}
	case trackOff:
		return []string{"client", "tracking", "off"}
	default:
		return []string{c.verb}
	}
}
