// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package verify judges whether a Redis server announces the growth of a key. A confirmed
// subscription shows nothing: servers confirm it whether or not they publish events.
// The proof is the server's own setting, or an event that came, each of the class of the key;
// the disproof are depths that grew while no event came. It does no I/O.
package verify

import (
	"iter"
	"slices"
	"time"
)

// gracePeriod is for how long a subscription, or the proof that comes with a new one, may be
// missing before that is told. Nothing that heals sooner is worth a change of the status.
const gracePeriod = 5 * time.Second

// Reason says whether the growth of a key is announced, and if not, why. Its values are
// the reasons of the status condition that reports them.
type Reason string

// The reasons.
const (
	// Undecided means that it is not known yet, or about to change: what was known before
	// stands. A subscription that never lasts for long leaves it so.
	Undecided Reason = ""
	// ReasonSubscribed means that it is announced: the subscription stands, and it is proven
	// that the server publishes events.
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

// Verdict says whether growth is announced.
type Verdict struct {
	// Reason says it in a word.
	Reason Reason
	// Flags is what notify-keyspace-events has to be set to for all the keys that were judged.
	// It is there if the Reason is ReasonNotConfigured, and holds known flags only.
	Flags string
	// ConfigureRefused says that the server did not let the operator set the flags.
	ConfigureRefused bool
}

// Subscription is what is known of the subscription to the events of a key.
type Subscription struct {
	// Present says that it stands, and Since is since when that is so, or is not so.
	Present bool
	Since   time.Time
	// Forbidden says that the user may not subscribe, by the last answer.
	Forbidden bool
	// HeardAt is when growth was last heard of; zero if never.
	HeardAt time.Time
	// ShrunkAt is when it was last heard that the key holds less; zero if never.
	ShrunkAt time.Time
}

// Key is what is known of a key.
type Key struct {
	Class        Class
	Subscription Subscription
	Audit        *Audit
}

// Judge tells what the evidence of a server and what is known of keys of it amount to. That
// is what is to be said of the first of them which is not announced. Wanted are the classes of
// all keys that anybody watches there: flags that were set for one must not be lost to another.
func Judge(server *Evidence, keys []Key, wanted iter.Seq[Class], now time.Time) Verdict {
	for _, key := range keys {
		setting, heard := server.of(key.Class)
		reason := key.judge(setting, heard, server.SilentUntil(key.Class, now), now)
		switch reason {
		case ReasonSubscribed:
		case ReasonNotConfigured:
			return notConfigured(setting, wanted)
		default:
			return Verdict{Reason: reason}
		}
	}
	return Verdict{Reason: ReasonSubscribed}
}

func (k Key) judge(setting Setting, heard bool, silentUntil, now time.Time) Reason {
	waited := now.Sub(k.Subscription.Since) >= gracePeriod
	switch {
	case k.Subscription.Forbidden:
		return ReasonPermissionDenied
	case !k.Subscription.Present && waited:
		return ReasonUnreachable
	case !k.Subscription.Present:
		return Undecided
	case setting.silent(k.Class):
		return ReasonNotConfigured
	case k.Audit.disproved(now, k.Subscription, silentUntil):
		return ReasonNoEventsObserved
	case heard || setting.Readable:
		return ReasonSubscribed
	case !waited:
		return Undecided
	default:
		return ReasonUnverified
	}
}

// notConfigured is what is to be said of keys while the setting lacks flags for one of them.
func notConfigured(setting Setting, wanted iter.Seq[Class]) Verdict {
	if setting.Extended && !setting.Refused {
		return Verdict{Reason: Undecided} // They are about to be there.
	}
	flags := setting.Flags.WithRecommended(slices.Collect(wanted)...).Known()
	return Verdict{Reason: ReasonNotConfigured, Flags: string(flags), ConfigureRefused: setting.Refused}
}
