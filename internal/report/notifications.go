// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
)

// Tracks is in the message of NotificationsActive while Redis tracks the keys, also before the first change that it
// reports.
const Tracks = "Redis tracks the keys"

// otherSource is the end of all messages for states without notifications: how the operator learns of growth then.
var otherSource = map[verify.Tracking]string{
	verify.NotTracked: " Until then the operator polls the queue.",
	verify.TrackedUnproven: " Meanwhile Redis tracks the keys for the operator. Until it reports a first change, the " +
		"operator also polls the queue.",
	verify.Tracked: " Meanwhile Redis tracks the keys and notifies the operator of changes.",
}

// withoutOtherSource returns the message without its end about the other source, which may change soon after.
func withoutOtherSource(message string) string {
	for _, end := range otherSource {
		message = strings.TrimSuffix(message, end)
	}
	return message + " The operator uses the best source that works; status.mode shows it."
}

// flags describes the required value of notify-keyspace-events.
const flags = "K and the letter of each key type: " +
	"l for lists, t for streams, z for sorted sets, s for sets, h for hashes"

// notificationVerdicts maps the verdict of the watcher to the condition.
var notificationVerdicts = map[verify.Reason]Condition{
	verify.ReasonSubscribed: {
		metav1.ConditionTrue, scaledjobv1.ReasonSubscribed, "Redis sends keyspace notifications for the queue.",
	},
	verify.ReasonUnverified: {
		metav1.ConditionUnknown, scaledjobv1.ReasonUnverified,
		"It is not known yet whether Redis sends keyspace notifications for the queue: the operator may not read " +
			"notify-keyspace-events, and no notification has arrived. Make sure that the setting contains " +
			flags + ". Managed services have it among their parameters. The first notification verifies it.",
	},
	verify.ReasonNoEventsObserved: {
		metav1.ConditionFalse, scaledjobv1.ReasonNoEventsObserved,
		"The queue grew repeatedly, but no keyspace notification arrived. Check the address, and make sure that " +
			"notify-keyspace-events on the server that the messages are written to contains " + flags +
			"; and g if keys are renamed or restored. Managed services have the setting among their parameters. " +
			"The next notification verifies it.",
	},
	verify.ReasonTooManyNotifications: {
		metav1.ConditionFalse, scaledjobv1.ReasonTooManyNotifications,
		"Redis sends more keyspace notifications for the queue, or for all queues of the namespace, than the operator " +
			"takes. It uses them again after two minutes with fewer. Nothing has to be done, unless messages are not the " +
			"cause: then find the program that changes the keys or publishes to their channels.",
	},
	verify.ReasonUnreachable: {
		metav1.ConditionFalse, scaledjobv1.ReasonUnreachable,
		"The operator is not subscribed to keyspace notifications for the queue. If QueueConnected is False, its " +
			"message has the cause; otherwise the connection ended, or Redis accepts no subscription. " +
			"The operator keeps trying.",
	},
}

// notificationsDisabled is the condition if spec.notifications is Disabled, or a value of a newer version.
var notificationsDisabled = Condition{
	metav1.ConditionFalse, scaledjobv1.ReasonDisabled,
	"The operator polls the queue, because spec.notifications is Disabled. Set it to Enabled to react to messages " +
		"within milliseconds.",
}

// onlyTracking is the condition if spec.notifications is Tracking, by whether the keys are tracked.
var onlyTracking = map[verify.Tracking]string{
	verify.NotTracked: "The server does not track the keys now, so the operator polls the queue, and tries again. If QueueConnected " +
		"is False, its message has the cause. Otherwise, tracking needs Redis 6 or newer and the permission +client|tracking; the " +
		"operator's log has the answer of Redis.",
	verify.TrackedUnproven: "Redis tracks the keys for the operator. Until it reports a first change, the operator also polls the queue.",
	verify.Tracked:         "Redis tracks the keys and notifies the operator of changes.",
}

// notificationsActive returns the condition NotificationsActive; nil while the watcher has no verdict.
func notificationsActive(spec *scaledjobv1.ScaledJobSpec, known verify.Verdict, tracking verify.Tracking) *Condition {
	switch spec.Notifications {
	case scaledjobv1.NotificationsEnabled, "":
	case scaledjobv1.NotificationsTracking:
		return &Condition{
			metav1.ConditionFalse, scaledjobv1.ReasonNotSubscribed,
			"The operator does not subscribe to keyspace notifications, because spec.notifications is Tracking. " + onlyTracking[tracking],
		}
	default:
		return &notificationsDisabled
	}
	found, ok := verdictCondition(spec, known)
	if !ok {
		return nil
	}
	if known.Reason != verify.ReasonSubscribed {
		found.Message += otherSource[tracking]
	}
	return &found
}

// verdictCondition returns the condition that follows from the verdict, if there is one.
func verdictCondition(spec *scaledjobv1.ScaledJobSpec, known verify.Verdict) (found Condition, ok bool) {
	switch known.Reason {
	case verify.ReasonNotConfigured:
		return notConfigured(known), true
	case verify.ReasonPermissionDenied:
		return notPermitted(spec), true
	}
	found, ok = notificationVerdicts[known.Reason]
	return found, ok
}

// notConfigured is the condition if notify-keyspace-events lacks flags.
func notConfigured(known verify.Verdict) Condition {
	cause := ""
	if known.ConfigureRefused {
		cause = " The operator is configured to set it, but Redis rejects that."
	}
	return Condition{
		metav1.ConditionFalse, scaledjobv1.ReasonNotConfigured,
		"Redis does not send keyspace notifications for the queue. Run CONFIG SET notify-keyspace-events " +
			known.Flags +
			" and add the setting to redis.conf; managed services have it among their parameters." + cause,
	}
}

// notPermitted is the condition if the Redis user may not subscribe. The message names the channel with its database
// number, because granted patterns often lack it.
func notPermitted(spec *scaledjobv1.ScaledJobSpec) Condition {
	var database int32
	if spec.Redis != nil {
		database = spec.Redis.Database
	}
	return Condition{
		metav1.ConditionFalse, scaledjobv1.ReasonPermissionDenied,
		fmt.Sprintf("The Redis user may not subscribe to keyspace notifications for the queue. Grant it SUBSCRIBE "+
			"and the channel __keyspace@%[1]d__:<key>, for example with ACL SETUSER <user> +subscribe "+
			"&__keyspace@%[1]d__:<key>; the operator tries again every minute.", database),
	}
}

// modeOf returns the mode that follows from the condition and from the tracking of the keys.
func modeOf(active Condition, tracking verify.Tracking) scaledjobv1.ScalingMode {
	switch {
	case active.Status == metav1.ConditionTrue:
		return scaledjobv1.ModeEvents
	case tracking == verify.Tracked:
		return scaledjobv1.ModeTracking
	default:
		return scaledjobv1.ModePolling
	}
}
