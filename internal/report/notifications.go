// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
)

// polled ends the messages of all states in which the queue is polled.
const polled = " Until then the queue is polled."

// flags says what the setting has to hold.
const flags = "K and the letter of each type of key: l for lists, t for streams, z for sorted sets, s for sets, h for hashes"

// notificationVerdicts are what the condition says, by what the watcher knows.
var notificationVerdicts = map[verify.Reason]Condition{
	verify.ReasonSubscribed: {
		metav1.ConditionTrue, scaledjobv1.ReasonSubscribed, "Redis announces the growth of the queue.",
	},
	verify.ReasonUnverified: {
		metav1.ConditionUnknown, scaledjobv1.ReasonUnverified,
		"Nothing has shown yet whether Redis announces the growth of the queue: the operator may not read notify-keyspace-events, and no " +
			"event has come. Make sure that the setting holds " + flags + "; a managed service has it among its parameters. The first event " +
			"proves it." + polled,
	},
	verify.ReasonNoEventsObserved: {
		metav1.ConditionFalse, scaledjobv1.ReasonNoEventsObserved,
		"The queue grew repeatedly, and no event told of it. Make sure that notify-keyspace-events holds " + flags + "; and g if keys are " +
			"renamed or restored to it; on the very server that is written to. A managed service has it among its parameters. The next event " +
			"proves it." + polled,
	},
	verify.ReasonUnreachable: {
		metav1.ConditionFalse, scaledjobv1.ReasonUnreachable,
		"There is no subscription to the events of the queue. If QueueConnected is False, it has the cause; else the connection ended, or Redis " +
			"takes no subscription. That is tried again and again." + polled,
	},
}

// notificationsDisabled is what the condition says where the spec asks for none.
var notificationsDisabled = Condition{
	metav1.ConditionFalse, scaledjobv1.ReasonDisabled,
	"The queue is polled, as spec.notifications is Disabled. Set it to Enabled to have Jobs within milliseconds.",
}

// notificationsActive tells whether the growth of the queue is announced. It returns nil while that is not decided.
func notificationsActive(spec *scaledjobv1.ScaledJobSpec, known verify.Verdict) *Condition {
	if spec.Notifications == scaledjobv1.NotificationsDisabled {
		return &notificationsDisabled
	}
	switch known.Reason {
	case verify.ReasonNotConfigured:
		return notConfigured(known)
	case verify.ReasonPermissionDenied:
		return notPermitted(spec)
	}
	if found, ok := notificationVerdicts[known.Reason]; ok {
		return &found
	}
	return nil
}

// notConfigured tells what to do where the server's setting lacks flags.
func notConfigured(known verify.Verdict) *Condition {
	cause := ""
	if known.ConfigureRefused {
		cause = " The operator was told to do so, but Redis does not let it."
	}
	return &Condition{
		metav1.ConditionFalse, scaledjobv1.ReasonNotConfigured,
		"Redis does not announce the growth of the queue. Say CONFIG SET notify-keyspace-events " + known.Flags +
			" and put it into redis.conf too; a managed service has it among its parameters." + cause + polled,
	}
}

// notPermitted tells what to grant. A channel is that of one database, which is what a pattern that was granted mostly misses.
func notPermitted(spec *scaledjobv1.ScaledJobSpec) *Condition {
	var database int32
	if spec.Redis != nil {
		database = spec.Redis.Database
	}
	return &Condition{
		metav1.ConditionFalse, scaledjobv1.ReasonPermissionDenied,
		fmt.Sprintf("The Redis user may not subscribe to the events of the queue. Grant it SUBSCRIBE and the channel __keyspace@%[1]d__:<key>, "+
			"as by ACL SETUSER <user> +subscribe &__keyspace@%[1]d__:<key>; that is tried again every minute.%[2]s", database, polled),
	}
}

// modeOf is the mode that follows from the condition.
func modeOf(active Condition) scaledjobv1.ScalingMode {
	if active.Status == metav1.ConditionTrue {
		return scaledjobv1.ModeEvents
	}
	return scaledjobv1.ModePolling
}
