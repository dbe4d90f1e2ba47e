// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// The condition types of a ScaledJob. In the normal state, Ready, QueueConnected and TemplateValid are True,
// ScalingLimited is False, and Reconciling and Stalled are absent. NotificationsActive is False on a Redis with default
// settings, whose keys are tracked instead.
const (
	// ConditionReady is True while the operator scales the ScaledJob as its spec says. If it is False, its reason is
	// that of QueueConnected or TemplateValid, InvalidSpec, or, if creates failed repeatedly, that of ScalingLimited.
	ConditionReady = "Ready"
	// ConditionQueueConnected is True while the operator can read the depth of the queue.
	ConditionQueueConnected = "QueueConnected"
	// ConditionNotificationsActive says whether Redis sends keyspace notifications for the queue. It is Unknown until
	// that is verified. It never affects Ready: without notifications the operator uses client tracking, or else polls.
	ConditionNotificationsActive = "NotificationsActive"
	// ConditionTemplateValid says whether the API server accepts a Job built from the template: it follows from a dry
	// run in each generation, and from the answers to creates. It never prevents the creation of a Job.
	ConditionTemplateValid = "TemplateValid"
	// ConditionScalingLimited is True while something keeps Jobs from being created or from starting.
	ConditionScalingLimited = "ScalingLimited"
	// ConditionReconciling and ConditionStalled follow kstatus. They are present, and True, only while Ready is not
	// True: Stalled if a user must change something, and Reconciling if the operator retries and the problem may resolve
	// itself.
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
)

// The reasons of ConditionReady besides those of the other conditions.
const (
	// ReasonReconciled: the operator can read the queue, and the template is not known to be invalid.
	ReasonReconciled = "Reconciled"
	// ReasonSuspended: spec.suspend is true. The operator creates no Jobs; everything else continues. Also of
	// ConditionScalingLimited, while Jobs are due.
	ReasonSuspended = "Suspended"
	// ReasonInvalidSpec: the operator can't decode the spec, which may have been stored under an older CRD, or the spec
	// has fields of a newer CRD that this version of the operator does not know, or the template of the Jobs is too large.
	ReasonInvalidSpec = "InvalidSpec"
)

// The reasons of ConditionQueueConnected.
const (
	// ReasonConnected: the depth was read.
	ReasonConnected = "Connected"
	// ReasonSecretRejected: the depth was read with the previous values of the Secrets. The server rejects the current
	// values.
	ReasonSecretRejected = "SecretRejected"
	// ReasonUnreachable: the operator can't reach Redis, or Redis can't serve requests now. Also of
	// ConditionNotificationsActive.
	ReasonUnreachable = "Unreachable"
	// ReasonAuthFailed: Redis rejected the credentials, or requires some.
	ReasonAuthFailed = "AuthFailed"
	// ReasonPermissionDenied: the Redis user may not read the queue. Of ConditionNotificationsActive: it may not
	// subscribe.
	ReasonPermissionDenied = "PermissionDenied"
	// ReasonWrongType: a key holds another type than the spec says.
	ReasonWrongType = "WrongType"
	// ReasonDatabaseNotFound: the server has no database with this number.
	ReasonDatabaseNotFound = "DatabaseNotFound"
	// ReasonTLSFailed: the operator can't verify the server's certificate, the server rejects the operator's, or the spec
	// has credentials and does not say whether to use TLS.
	ReasonTLSFailed = "TLSFailed"
	// ReasonDialDenied: the operator does not connect to this address.
	ReasonDialDenied = "DialDenied"
	// ReasonSecretNotFound: there is no such Secret, or no such key in it.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretInvalid: the operator can't use a value of the Secret.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonSecretForbidden: the operator may not read the Secret.
	ReasonSecretForbidden = "SecretForbidden"
	// ReasonWrongMode: the server is not of the kind that spec.redis.mode says.
	ReasonWrongMode = "WrongMode"
	// ReasonMasterNotFound: the sentinels know no master with the name in spec.redis.sentinel.masterName.
	ReasonMasterNotFound = "MasterNotFound"
	// ReasonTooManyServers: the ScaledJobs of the namespace name more Redis databases than the operator allows per
	// namespace. Each database of a server counts, and each master of a Redis Cluster that holds their keys.
	ReasonTooManyServers = "TooManyServers"
	// ReasonConsumerGroupNotFound: the stream contains entries, but has no such consumer group. One message counts as
	// waiting, so that a worker can start and create the group.
	ReasonConsumerGroupNotFound = "ConsumerGroupNotFound"
)

// The reasons of ConditionNotificationsActive.
const (
	// ReasonSubscribed: the operator is subscribed, and has verified that Redis sends notifications.
	ReasonSubscribed = "Subscribed"
	// ReasonDisabled: spec.notifications is Disabled, or a value that this version does not know.
	ReasonDisabled = "Disabled"
	// ReasonNotSubscribed: spec.notifications is Tracking.
	ReasonNotSubscribed = "NotSubscribed"
	// ReasonNotConfigured: notify-keyspace-events lacks flags. By default Redis sets none.
	ReasonNotConfigured = "NotConfigured"
	// ReasonNoEventsObserved: the queue grew repeatedly, but no notification arrived.
	ReasonNoEventsObserved = "NoEventsObserved"
	// ReasonTooManyNotifications: Redis sends more notifications than the operator takes, so it uses none for the queue.
	ReasonTooManyNotifications = "TooManyNotifications"
	// ReasonUnverified: it is not known yet whether Redis sends notifications.
	ReasonUnverified = "Unverified"
)

// The reasons of ConditionTemplateValid.
const (
	// ReasonAccepted: the API server accepts a Job built from the template.
	ReasonAccepted = "Accepted"
	// ReasonRejected: the API server, an admission webhook or an admission policy rejects a Job built from the template.
	ReasonRejected = "Rejected"
	// ReasonNotChecked: the API server did not respond, or rejected the dry run for another cause than the template.
	ReasonNotChecked = "NotChecked"
)

// The reasons of ConditionScalingLimited.
const (
	// ReasonJobsFailing: the last Jobs to finish have all failed, and the operator creates single Jobs until one succeeds.
	ReasonJobsFailing = "JobsFailing"
	// ReasonNoProgress: Jobs finish, but no message leaves the queue, and the operator creates single Jobs until one does.
	ReasonNoProgress = "NoProgress"
	// ReasonMessagesOrphaned: messages are in progress that no unfinished Job holds, and the operator creates single Jobs
	// for them.
	ReasonMessagesOrphaned = "MessagesOrphaned"
	// ReasonCreateRefused: the API server refuses to create a Job, because of a quota, an admission webhook or policy, or
	// a missing permission.
	ReasonCreateRefused = "CreateRefused"
	// ReasonCreateFailing: the API server could not create a Job, for example because an admission webhook does not
	// answer, or gave no answer.
	ReasonCreateFailing = "CreateFailing"
	// ReasonJobsSuspended: messages are outstanding, and all active Jobs are suspended, for example because Kueue has not
	// admitted them.
	ReasonJobsSuspended = "JobsSuspended"
	// ReasonJobsNotStarting: messages are outstanding, or minReplicas or spareReplicas require Jobs, and Jobs have had no
	// ready Pod for a minute or longer.
	ReasonJobsNotStarting = "JobsNotStarting"
	// ReasonAtMaxPending: more Jobs are due, and as many active Jobs have no ready Pod as maxPendingReplicas allows.
	ReasonAtMaxPending = "AtMaxPending"
	// ReasonAtMaxReplicas: more Jobs are due than maxReplicas allows.
	ReasonAtMaxReplicas = "AtMaxReplicas"
	// ReasonNotLimited: no Job is held back.
	ReasonNotLimited = "NotLimited"
)
