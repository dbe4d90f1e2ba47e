// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package proof judges whether a Redis server announces the growth of a key. A confirmed
// subscription shows nothing: servers confirm it whether or not they publish events.
// The proof is the server's own setting, or an event that came; the disproof are depths
// that grew while no event came. It does no I/O.
package proof

import "time"

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
	// Flags is what notify-keyspace-events has to be set to. It is there if the Reason is
	// ReasonNotConfigured, and holds known flags only.
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

// Judge tells what the evidence of a server, the subscription to a key of it and the audit
// of that key amount to.
func Judge(server *Evidence, key Subscription, audit *Audit, now time.Time) Verdict {
	setting, heard := server.get()
	proven := heard || setting.Readable
	waited := now.Sub(key.Since) >= gracePeriod
	switch {
	case key.Forbidden:
		return Verdict{Reason: ReasonPermissionDenied}
	case !key.Present && waited:
		return Verdict{Reason: ReasonUnreachable}
	case !key.Present:
		return Verdict{Reason: Undecided}
	case setting.silent():
		wanted := setting.Flags.WithRecommended().Known()
		return Verdict{Reason: ReasonNotConfigured, Flags: string(wanted), ConfigureRefused: setting.Refused}
	case audit.disproved(now, key, server.SilentUntil(now)):
		return Verdict{Reason: ReasonNoEventsObserved}
	case proven:
		return Verdict{Reason: ReasonSubscribed}
	case !waited:
		return Verdict{Reason: Undecided}
	default:
		return Verdict{Reason: ReasonUnverified}
	}
}
