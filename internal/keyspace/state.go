// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"time"
)

// Reason says whether the growth of a key is announced, and if not, why. Its values are
// the reasons of the status condition that reports them.
type Reason string

// The reasons.
const (
	// Undecided means that it is not known yet. That lasts for five seconds at most.
	Undecided Reason = ""
	// ReasonSubscribed means that it is announced: the subscription stands, and it is proven
	// that the server publishes events, by its setting or by an event that came.
	ReasonSubscribed Reason = "Subscribed"
	// ReasonUnverified means that the subscription stands, and that nothing has shown yet
	// whether the server publishes events.
	ReasonUnverified Reason = "Unverified"
	// ReasonNotConfigured means that the server's setting lacks flags.
	ReasonNotConfigured Reason = "NotConfigured"
	// ReasonNoEventsObserved means that the key grew repeatedly without an event.
	ReasonNoEventsObserved Reason = "NoEventsObserved"
	// ReasonPermissionDenied means that the user may not subscribe.
	ReasonPermissionDenied Reason = "PermissionDenied"
	// ReasonUnreachable means that there has been no subscription for five seconds.
	ReasonUnreachable Reason = "Unreachable"
)

// State is what is known about the events of the keys of an id.
type State struct {
	Verdict
	// Watchers is how many ids watch keys of the same server.
	Watchers int
	// LastEvent is when growth was last heard of; zero if never.
	LastEvent time.Time
}

// Verdict says whether growth is announced.
type Verdict struct {
	// Reason says it in a word.
	Reason Reason
	// Flags is what notify-keyspace-events has to be set to. It is there if the Reason is
	// ReasonNotConfigured, and holds known flags only.
	Flags string
	// ConfigureRefused says that the server did not let the operator set the flags.
	ConfigureRefused bool
}

// judge tells what the standing of a channel and the evidence of its server amount to.
func judge(channel standing, server setting, heard, disproved bool, now time.Time) Verdict {
	waited := now.Sub(channel.since) >= patience
	switch {
	case channel.forbidden:
		return Verdict{Reason: ReasonPermissionDenied}
	case !channel.present && waited:
		return Verdict{Reason: ReasonUnreachable}
	case !channel.present:
		return Verdict{Reason: Undecided}
	case disproved:
		return Verdict{Reason: ReasonNoEventsObserved}
	case !server.asked && !heard && !waited:
		return Verdict{Reason: Undecided}
	default:
		return judgeServer(server, heard)
	}
}

// judgeServer tells whether the server publishes events, as far as that is known.
func judgeServer(server setting, heard bool) Verdict {
	switch {
	case server.readable && !server.flags.publishesLists():
		wanted := server.flags.withRecommended().known()
		return Verdict{Reason: ReasonNotConfigured, Flags: string(wanted), ConfigureRefused: server.refused}
	case server.readable || heard:
		return Verdict{Reason: ReasonSubscribed}
	default:
		return Verdict{Reason: ReasonUnverified}
	}
}

// State returns what is known about the events of the keys of an id. It does not block.
// A later change of its verdict wakes the id with the cause Changed.
func (w *Watcher[K]) State(id K) State {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched, ok := w.watches[id]
	if !ok {
		return State{}
	}
	server := w.supervisors[watched.endpoint]
	state := State{Watchers: server.users}
	for _, key := range watched.keys {
		if heardAt := server.index.standing(channelPrefix + key).heardAt; heardAt.After(state.LastEvent) {
			state.LastEvent = heardAt
		}
	}
	watched.told = w.verdict(watched, time.Now())
	state.Verdict = watched.told
	return state
}

// Observed tells of a depth of a key of an id that was read from began until now. It
// reports whether an earlier growth has turned out to be unannounced. It does not block.
func (w *Watcher[K]) Observed(id K, key string, depth int64, began time.Time) (missed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched, ok := w.watches[id]
	if !ok || watched.audits[key] == nil {
		return false
	}
	var subscribedAt time.Time
	channel := w.supervisors[watched.endpoint].index.standing(channelPrefix + key)
	if channel.present {
		subscribedAt = channel.since
	}
	return watched.audits[key].read(depth, began, time.Now(), subscribedAt, channel.heardAt)
}

// verdict is that of the first key which is not announced. What was told stands until
// there is something else to tell.
func (w *Watcher[K]) verdict(watched *watch, now time.Time) Verdict {
	server := w.supervisors[watched.endpoint]
	setting, heard := server.evidence.get()
	for _, key := range watched.keys {
		channel := server.index.standing(channelPrefix + key)
		disproved := watched.audits[key].disproved(now, channel.heardAt)
		switch verdict := judge(channel, setting, heard, disproved, now); verdict.Reason {
		case ReasonSubscribed:
		case Undecided:
			return watched.told
		default:
			return verdict
		}
	}
	return Verdict{Reason: ReasonSubscribed}
}

// review wakes the ids whose verdict has changed.
func (w *Watcher[K]) review(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, watched := range w.watches {
		if verdict := w.verdict(watched, now); verdict != watched.told {
			watched.told = verdict
			w.mark(id, Changed)
		}
	}
}

// reviewer reviews the verdicts when there is new evidence, and every second for those that
// depend on the time.
func (w *Watcher[K]) reviewer(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.stirred:
		case <-ticker.C:
		}
		w.review(time.Now())
	}
}
