// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// The condition types of a ScaledJob. All are of positive polarity but ScalingLimited, for which False is the normal state.
const (
	// ConditionReady is True while the ScaledJob is scaled as its spec says. While it is False, its reason is that of the
	// condition which prevents it, QueueConnected or TemplateValid, or that the spec can't be read.
	ConditionReady = "Ready"
	// ConditionQueueConnected is True while the depth of the queue can be read.
	ConditionQueueConnected = "QueueConnected"
	// ConditionNotificationsActive tells whether Redis announces the growth of the queue. It is Unknown while that is not proven.
	// It never affects Ready: without notifications the queue is polled.
	ConditionNotificationsActive = "NotificationsActive"
	// ConditionTemplateValid tells whether the API server accepts a Job built from the template, asked by a dry run once per
	// generation. It never holds back a Job.
	ConditionTemplateValid = "TemplateValid"
	// ConditionScalingLimited is True while fewer Jobs are wanted than are due.
	ConditionScalingLimited = "ScalingLimited"
	// ConditionReconciling and ConditionStalled are those of kstatus. They are present, and True, only while Ready is not True:
	// Stalled where a person has to change something, and Reconciling where time may heal it.
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
)

// The reasons of ConditionReady that are its own.
const (
	// ReasonReconciled: the queue can be read, and nothing is known against the template.
	ReasonReconciled = "Reconciled"
	// ReasonSuspended: the spec asks to create no Job; everything else goes on.
	ReasonSuspended = "Suspended"
	// ReasonInvalidSpec: the spec is not of the form that the CRD has, as it may be if it was stored under an older one.
	ReasonInvalidSpec = "InvalidSpec"
)

// The reasons of ConditionQueueConnected.
const (
	// ReasonConnected: the depth was read.
	ReasonConnected = "Connected"
	// ReasonSecretRejected: the depth was read, with what the Secrets held before. The server does not let the operator in with what they
	// hold now.
	ReasonSecretRejected = "SecretRejected"
	// ReasonUnreachable: Redis can't be reached, or does not serve for now. Also of ConditionNotificationsActive.
	ReasonUnreachable = "Unreachable"
	// ReasonAuthFailed: Redis refused the credentials, or asks for some.
	ReasonAuthFailed = "AuthFailed"
	// ReasonPermissionDenied: the Redis user may not read the queue; of ConditionNotificationsActive, not subscribe to its events.
	ReasonPermissionDenied = "PermissionDenied"
	// ReasonWrongType: a key holds another type than the spec says.
	ReasonWrongType = "WrongType"
	// ReasonDatabaseNotFound: the server has no database of that number.
	ReasonDatabaseNotFound = "DatabaseNotFound"
	// ReasonTLSFailed: the server could not prove who it is, or did not take the operator for who it is.
	ReasonTLSFailed = "TLSFailed"
	// ReasonDialDenied: the address leads to where the operator does not connect to.
	ReasonDialDenied = "DialDenied"
	// ReasonSecretNotFound: there is no such Secret, or no such key in it.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretInvalid: what the Secret holds can't be used.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonSecretForbidden: the operator has no right to read the Secret.
	ReasonSecretForbidden = "SecretForbidden"
	// ReasonTooManyServers: the ScaledJobs of the namespace name more Redis servers than the operator connects to for one.
	ReasonTooManyServers = "TooManyServers"
	// ReasonConsumerGroupNotFound: the stream holds entries and has no such consumer group. One message counts as waiting, so that a first
	// worker can create the group.
	ReasonConsumerGroupNotFound = "ConsumerGroupNotFound"
)

// The reasons of ConditionNotificationsActive.
const (
	// ReasonSubscribed: the operator is subscribed, and it is proven that Redis publishes the events.
	ReasonSubscribed = "Subscribed"
	// ReasonDisabled: the spec asks for none.
	ReasonDisabled = "Disabled"
	// ReasonNotConfigured: notify-keyspace-events lacks flags. Redis' own default is none.
	ReasonNotConfigured = "NotConfigured"
	// ReasonNoEventsObserved: the queue grew repeatedly, and no event told of it.
	ReasonNoEventsObserved = "NoEventsObserved"
	// ReasonUnverified: nothing has shown yet whether Redis publishes the events.
	ReasonUnverified = "Unverified"
)

// The reasons of ConditionTemplateValid.
const (
	// ReasonAccepted: the API server accepts a Job built from the template.
	ReasonAccepted = "Accepted"
	// ReasonRejected: the API server calls a Job built from the template invalid.
	ReasonRejected = "Rejected"
	// ReasonNotChecked: the API server could not be asked, or refused for a cause that is not the template's.
	ReasonNotChecked = "NotChecked"
)

// The reasons of ConditionScalingLimited.
const (
	// ReasonJobsFailing: the last Jobs to finish have all failed, and creating pauses.
	ReasonJobsFailing = "JobsFailing"
	// ReasonNoProgress: Jobs finish, but no message leaves the queue, and creating pauses.
	ReasonNoProgress = "NoProgress"
	// ReasonCreateRefused: the API server refuses to create a Job that is due, by a quota, an admission policy or for lack of a right.
	ReasonCreateRefused = "CreateRefused"
	// ReasonAtMaxReplicas: more Jobs are due than maxReplicas allows.
	ReasonAtMaxReplicas = "AtMaxReplicas"
	// ReasonNotLimited: nothing is held back.
	ReasonNotLimited = "NotLimited"
)
