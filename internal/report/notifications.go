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
const polled = " Until then the operator polls the queue."

// flags says what the setting has to hold.
const flags = "K and the letter of each key type: l for lists, t for streams, z for sorted sets, s for sets, h for hashes"

// notificationVerdicts are what the condition says, by what the watcher knows.
var notificationVerdicts = map[verify.Reason]Condition{
	verify.ReasonSubscribed: {
		metav1.ConditionTrue, scaledjobv1.ReasonSubscribed, "Redis sends keyspace notifications for the queue.",
	},
	verify.ReasonUnverified: {
		metav1.ConditionUnknown, scaledjobv1.ReasonUnverified,
		"It is not known yet whether Redis sends keyspace notifications for the queue: the operator may not read notify-keyspace-events, and no " +
			"notification has arrived. Make sure that the setting contains " + flags + ". Managed services have it among their parameters. The " +
			"first notification verifies it." + polled,
	},
	verify.ReasonNoEventsObserved: {
		metav1.ConditionFalse, scaledjobv1.ReasonNoEventsObserved,
		"The queue grew repeatedly, but no keyspace notification arrived. Check the address, and make sure that notify-keyspace-events on the " +
			"server that the messages are written to contains " + flags + "; and g if keys are renamed or restored. Managed services have the " +
			"setting among their parameters. The next notification verifies it." + polled,
	},
	verify.ReasonUnreachable: {
		metav1.ConditionFalse, scaledjobv1.ReasonUnreachable,
		"The operator is not subscribed to keyspace notifications for the queue. If QueueConnected is False, its message has the cause; " +
			"otherwise the connection ended, or Redis accepts no subscription. The operator keeps trying." + polled,
	},
}

// notificationsDisabled is what the condition says where the spec asks for none.
var notificationsDisabled = Condition{
	metav1.ConditionFalse, scaledjobv1.ReasonDisabled,
	"The operator polls the queue, because spec.notifications is Disabled. Set it to Enabled to react to messages within milliseconds.",
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
		cause = " The operator is configured to set it, but Redis rejects that."
	}
	return &Condition{
		metav1.ConditionFalse, scaledjobv1.ReasonNotConfigured,
		"Redis does not send keyspace notifications for the queue. Run CONFIG SET notify-keyspace-events " + known.Flags +
			" and add the setting to redis.conf; managed services have it among their parameters." + cause + polled,
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
		fmt.Sprintf("The Redis user may not subscribe to keyspace notifications for the queue. Grant it SUBSCRIBE and the channel "+
			"__keyspace@%[1]d__:<key>, for example with ACL SETUSER <user> +subscribe &__keyspace@%[1]d__:<key>; the operator tries again "+
			"every minute.%[2]s", database, polled),
	}
}

// modeOf is the mode that follows from the condition.
func modeOf(active Condition) scaledjobv1.ScalingMode {
	if active.Status == metav1.ConditionTrue {
		return scaledjobv1.ModeEvents
	}
	return scaledjobv1.ModePolling
}
