// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package verify decides whether a Redis server announces the growth of a key. A confirmed subscription proves nothing,
// because servers confirm it whether or not they publish events. The proof is the setting of the server, or an event
// that came, for the class of the key. Depths that grew without an event are proof of the contrary. The package does no
// I/O.
package verify

import (
	"time"
)

// GracePeriod is how long a subscription, or its proof, may be missing before that is reported. Shorter interruptions
// do not change the status.
const GracePeriod = 5 * time.Second

// Reason says whether the growth of a key is announced, and if not, why. Its values are the reasons of the condition
// NotificationsActive.
type Reason string

// The reasons.
const (
	// Undecided means that it is not known yet or about to change, so the previous verdict stays. It is also the reason
	// of a subscription that never lasts long.
	Undecided Reason = ""
	// ReasonSubscribed means that growth is announced: the subscription is confirmed, and it is proven that the server
	// publishes events.
	ReasonSubscribed Reason = "Subscribed"
	// ReasonUnverified means that the subscription is confirmed, but there is no proof yet that the server publishes
	// events.
	ReasonUnverified Reason = "Unverified"
	// ReasonNotConfigured means that the setting of the server lacks flags.
	ReasonNotConfigured Reason = "NotConfigured"
	// ReasonNoEventsObserved means that the key grew repeatedly without an event.
	ReasonNoEventsObserved Reason = "NoEventsObserved"
	// ReasonTooManyNotifications means that the key had too many events. It must be watched in another way meanwhile.
	ReasonTooManyNotifications Reason = "TooManyNotifications"
	// ReasonPermissionDenied means that the user may not subscribe.
	ReasonPermissionDenied Reason = "PermissionDenied"
	// ReasonUnreachable means that there has been no subscription for five seconds.
	ReasonUnreachable Reason = "Unreachable"
)

// Verdict says whether growth is announced.
type Verdict struct {
	// Reason is the reason of the verdict.
	Reason Reason
	// Flags is the value of notify-keyspace-events that is needed for all watched keys. It is set only if Reason is
	// ReasonNotConfigured, and contains known flags only.
	Flags string
	// ConfigureRefused means that the server did not let the operator set the flags.
	ConfigureRefused bool
}

// Tracking says whether the server notifies of changes of keys because it tracks them.
type Tracking int

// The states of tracking.
const (
	// NotTracked means that not all keys are tracked, or that depths grew without a message.
	NotTracked Tracking = iota
	// TrackedUnproven means that all keys are tracked, but the server has not reported any change yet.
	TrackedUnproven
	// Tracked means that all keys are tracked, and that the server notifies of changes.
	Tracked
)

// Subscription is the state of the subscription to the events of a key.
type Subscription struct {
	// Present means that the subscription is confirmed. Since is when that last changed.
	Present bool
	Since   time.Time
	// Forbidden means that the last SUBSCRIBE was rejected because of a permission.
	Forbidden bool
	// HeardAt is the time of the last growth event; zero if there was none.
	HeardAt time.Time
	// ShrunkAt is the time of the last shrink event; zero if there was none.
	ShrunkAt time.Time
	// Flooded means that the key has too many events, or had until a short time ago.
	Flooded bool
}

// Key is what is known about a key.
type Key struct {
	Class        Class
	Subscription Subscription
	Audit        *Audit
}

// Judge returns the verdict on a key of a server. wanted returns the classes of all watched keys of the server: the
// flags for one class must not be lost when those for another are set. until is when the verdict may change although
// nothing else happens, and zero if it does not.
func Judge(server *Evidence, key Key, wanted func() []Class, now time.Time) (verdict Verdict, until time.Time) {
	setting, heard := server.of(key.Class)
	reason, until := key.judge(setting, heard, server.SilentUntil(key.Class, now), now)
	if reason == ReasonNotConfigured {
		return notConfigured(setting, wanted), until
	}
	return Verdict{Reason: reason}, until
}

func (k Key) judge(setting Setting, heard bool, silentUntil, now time.Time) (reason Reason, until time.Time) {
	grace := k.Subscription.Since.Add(GracePeriod)
	waited := !now.Before(grace)
	switch {
	case k.Subscription.Forbidden:
		return ReasonPermissionDenied, until
	case k.Subscription.Flooded:
		return ReasonTooManyNotifications, until
	case !k.Subscription.Present && waited:
		return ReasonUnreachable, until
	case !k.Subscription.Present:
		return Undecided, grace
	case setting.silent(k.Class):
		return ReasonNotConfigured, until
	case k.Audit.Disproved(now, k.Subscription, silentUntil):
		return ReasonNoEventsObserved, until
	case heard || setting.Readable:
		return ReasonSubscribed, k.Audit.Until(now)
	case !waited:
		return Undecided, grace
	default:
		return ReasonUnverified, k.Audit.Until(now)
	}
}

// notConfigured returns the verdict on keys while the setting lacks flags for one of them.
func notConfigured(setting Setting, wanted func() []Class) Verdict {
	if setting.Extended && !setting.Refused {
		return Verdict{Reason: Undecided} // The operator is adding them.
	}
	flags := setting.Flags.WithRecommended(wanted()...).Known()
	return Verdict{Reason: ReasonNotConfigured, Flags: string(flags), ConfigureRefused: setting.Refused}
}
