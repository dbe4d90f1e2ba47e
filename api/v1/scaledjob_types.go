// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The defaults of optional fields, in the field's own unit. The CRD sets them at admission; the methods of
// ScaledJobSpec apply them to objects that were stored before the field had a default. The items of a list get their
// defaults from AllQueues only.
const (
	DefaultMaxReplicas                int32 = 100
	DefaultPollingIntervalSeconds     int32 = 30
	DefaultSuccessfulJobsHistoryLimit int32 = 100
	DefaultFailedJobsHistoryLimit     int32 = 100
)

// NotificationMode says how the operator learns at once that the queue has grown.
// +kubebuilder:validation:Enum=Enabled;Tracking;Disabled
type NotificationMode string

const (
	// NotificationsEnabled uses the best source of events that the server has: keyspace notifications, or else the
	// tracking of keys.
	NotificationsEnabled NotificationMode = "Enabled"
	// NotificationsTracking tracks the keys, without a subscription to keyspace notifications.
	NotificationsTracking NotificationMode = "Tracking"
	// NotificationsDisabled reads the queue at each polling interval only.
	NotificationsDisabled NotificationMode = "Disabled"
)

// ScaledJobSpec specifies the Redis queues, the template of the Jobs that process them, and the number of Jobs.
//
// +kubebuilder:validation:XValidation:rule="has(self.queueName) != has(self.queues)",message="exactly one of queueName and queues is required",fieldPath=".queueName"
// +kubebuilder:validation:XValidation:rule="has(self.redisAddress) != has(self.redis)",message="exactly one of redisAddress and redis is required",fieldPath=".redisAddress"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.maxReplicas == 0 || self.minReplicas <= self.maxReplicas",message="minReplicas must not be larger than maxReplicas",fieldPath=".minReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.spareReplicas) || self.spareReplicas == 0 || !has(self.maxReplicas) || self.maxReplicas == 0 || self.spareReplicas <= self.maxReplicas",message="spareReplicas must not be larger than maxReplicas",fieldPath=".spareReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.spareReplicas) || self.spareReplicas == 0 || !has(self.scalingStrategy) || !has(self.scalingStrategy.type) || !(self.scalingStrategy.type in ['Accurate', 'Custom'])",message="spareReplicas is not allowed with scalingStrategy.type Accurate or Custom, which count a spare Job that is ready as one that has taken a message: let the workers move messages to a key with the role InProgress, and use Default",fieldPath=".spareReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.maxWaitSeconds) || (has(self.activationThreshold) && self.activationThreshold > 0)",message="maxWaitSeconds requires an activationThreshold of at least 1: without one, messages do not wait for further messages",fieldPath=".maxWaitSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.queues) || !has(self.queuesCalculation) || self.queuesCalculation == 'Sum' || !self.queues.exists(q, has(q.role) && q.role == 'InProgress')",message="queues with the role InProgress can only be added up, by queuesCalculation Sum",fieldPath=".queuesCalculation"
type ScaledJobSpec struct {
	// queueName is the key of the Redis list with the waiting messages, at most 1024 bytes. Exactly one of queueName
	// and queues is required.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 1024",message="must be at most 1024 bytes long"
	QueueName string `json:"queueName,omitempty"`

	// queues are the Redis keys whose messages count, of any type, at most 16. Use it instead of queueName.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +kubebuilder:validation:XValidation:rule="self.exists(q, !has(q.role) || q.role == 'Waiting')",message="at least one queue must be Waiting"
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.name == b.name && ((has(a.stream) && has(a.stream.consumerGroup) ? a.stream.consumerGroup : '') == (has(b.stream) && has(b.stream.consumerGroup) ? b.stream.consumerGroup : '') || (has(a.stream) && has(a.stream.consumerGroup) ? a.stream.consumerGroup : '') == '' || (has(b.stream) && has(b.stream.consumerGroup) ? b.stream.consumerGroup : '') == '') && ((has(a.sortedSet) && has(a.sortedSet.window) ? a.sortedSet.window : 'All') == (has(b.sortedSet) && has(b.sortedSet.window) ? b.sortedSet.window : 'All') || (has(a.sortedSet) && has(a.sortedSet.window) ? a.sortedSet.window : 'All') == 'All' || (has(b.sortedSet) && has(b.sortedSet.window) ? b.sortedSet.window : 'All') == 'All' || (has(a.sortedSet) && has(a.sortedSet.scoreUnit) ? a.sortedSet.scoreUnit : 's') != (has(b.sortedSet) && has(b.sortedSet.scoreUnit) ? b.sortedSet.scoreUnit : 's'))))",message="no message may count twice: queues must differ in name, in stream.consumerGroup, or in sortedSet.window as Due and Live with the same scoreUnit"
	Queues []Queue `json:"queues,omitempty"`

	// queuesCalculation says how several queues are combined: their Sum (default), or the Max, Min or Avg of the Jobs
	// that are due for each queue. Min and Avg ignore empty queues.
	// +optional
	// +kubebuilder:default=Sum
	QueuesCalculation QueuesCalculation `json:"queuesCalculation,omitempty"`

	// redisAddress is the Redis server as host:port, with IPv6 addresses in brackets, without a scheme or path. It is
	// for a server without password and TLS, and for database 0. Exactly one of redisAddress and redis is required.
	// +optional
	// +kubebuilder:validation:MaxLength=261
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9._])?|\\\\[[0-9A-Fa-f:.]+\\\\]):[0-9]{1,5}$') && int(self.substring(self.lastIndexOf(':') + 1)) >= 1 && int(self.substring(self.lastIndexOf(':') + 1)) <= 65535",message="must be host:port, such as redis.example.svc:6379, without a scheme or path"
	RedisAddress string `json:"redisAddress,omitempty"`

	// redis specifies the Redis server, the database, the credentials and TLS. Use it instead of redisAddress.
	// +optional
	Redis *Redis `json:"redis,omitempty"`

	// threshold is the number of messages per Job: ceil(depth / threshold) Jobs are due with the strategy Default. At
	// least 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Threshold int64 `json:"threshold"`

	// activationThreshold is the depth of all queues together up to which no Jobs are due. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ActivationThreshold int64 `json:"activationThreshold,omitempty"`

	// maxWaitSeconds is how long messages wait at most for the depth to exceed activationThreshold. After that time the
	// Jobs for them are due. 1 to 86400. By default they wait without a limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	MaxWaitSeconds *int32 `json:"maxWaitSeconds,omitempty"`

	// minReplicas is the minimum number of active Jobs, even if the queue is empty. Default 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	MinReplicas int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the maximum number of active Jobs. With 0, no Jobs are created. Default 100.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=0
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// maxPendingReplicas is the maximum number of active Jobs without a ready Pod, such as those that wait for a node. The
	// operator creates further Jobs when one of them becomes ready or ends. At least 1. By default there is no such
	// maximum.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxPendingReplicas *int32 `json:"maxPendingReplicas,omitempty"`

	// spareReplicas is the number of Jobs to keep active in addition to those that are due, within maxReplicas, so that a
	// worker is ready when a message arrives. The workers must wait for messages, and not exit while the queue is empty.
	// Not allowed with the strategies Accurate and Custom. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SpareReplicas int32 `json:"spareReplicas,omitempty"`

	// scalingStrategy says how the number of Jobs is computed from the messages.
	// +optional
	ScalingStrategy ScalingStrategy `json:"scalingStrategy,omitzero"`

	// pollingIntervalSeconds is how often the operator reads the queue even if Redis reports no change, plus or minus
	// 10 %. 1 to 3600, default 30.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	PollingIntervalSeconds int32 `json:"pollingIntervalSeconds,omitempty"`

	// notifications says how the operator learns of new messages at once. Enabled (default) uses keyspace notifications
	// where Redis sends them, and otherwise client tracking, which needs no setting. Tracking uses only client tracking.
	// Where neither works, the operator reads the queue every 5 seconds by default. Disabled uses neither: the operator
	// reads the queue at each polling interval.
	// +optional
	// +kubebuilder:default=Enabled
	Notifications NotificationMode `json:"notifications,omitempty"`

	// suspend stops the creation of Jobs. Running Jobs continue. The operator still updates the status and deletes old
	// finished Jobs, and status.desiredJobs shows how many Jobs it would run. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// successfulJobsHistoryLimit is the number of succeeded Jobs to keep; the newest are kept. Default 100.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=0
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is the number of failed Jobs to keep; the newest are kept. Default 100.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=0
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`

	// rollout says what happens to unfinished Jobs of an earlier jobTemplate. By default they continue unchanged.
	// +optional
	Rollout Rollout `json:"rollout,omitzero"`

	// jobTemplate is the template of the Jobs. All fields of a Job are allowed. Its labels and annotations are copied to
	// each Job, and other metadata is ignored. An unset restartPolicy becomes Never with podFailurePolicy or
	// backoffLimitPerIndex, and otherwise OnFailure. It must not set a selector, or labels or annotations with the prefix
	// batch.miracle.dev/.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.template.spec.restartPolicy) || self.spec.template.spec.restartPolicy in ['Never', 'OnFailure']",message="restartPolicy must be Never or OnFailure, or unset",fieldPath=".spec.template.spec.restartPolicy"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.selector) || !(has(self.spec.selector.matchLabels) || has(self.spec.selector.matchExpressions))",message="selector must not be set: Kubernetes generates one for each Job",fieldPath=".spec.selector",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.manualSelector) || !self.spec.manualSelector",message="manualSelector must not be true",fieldPath=".spec.manualSelector",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.metadata) || ((!has(self.metadata.labels) || self.metadata.labels.all(k, !k.startsWith('batch.miracle.dev/'))) && (!has(self.metadata.annotations) || self.metadata.annotations.all(k, !k.startsWith('batch.miracle.dev/'))))",message="labels and annotations under batch.miracle.dev/ are reserved for the operator",fieldPath=".metadata"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.template.metadata) || ((!has(self.spec.template.metadata.labels) || self.spec.template.metadata.labels.all(k, !k.startsWith('batch.miracle.dev/'))) && (!has(self.spec.template.metadata.annotations) || self.spec.template.metadata.annotations.all(k, !k.startsWith('batch.miracle.dev/'))))",message="labels and annotations under batch.miracle.dev/ are reserved for the operator",fieldPath=".spec.template.metadata"
	JobTemplate *batchv1.JobTemplateSpec `json:"jobTemplate"`
}

// MaxReplicasOrDefault is maxReplicas, or its default where it is unset. A negative one, as an older CRD may have
// allowed, is 0.
func (s *ScaledJobSpec) MaxReplicasOrDefault() int32 {
	if s.MaxReplicas == nil {
		return DefaultMaxReplicas
	}
	return max(0, *s.MaxReplicas)
}

// MaxWait is maxWaitSeconds, or 0 where it is unset or not positive: then messages wait without a limit.
func (s *ScaledJobSpec) MaxWait() time.Duration {
	if s.MaxWaitSeconds == nil {
		return 0
	}
	return time.Duration(max(0, *s.MaxWaitSeconds)) * time.Second
}

// MaxPendingReplicasOrNone is maxPendingReplicas, or 0 where it is unset or not positive: then there is no maximum.
func (s *ScaledJobSpec) MaxPendingReplicasOrNone() int32 {
	if s.MaxPendingReplicas == nil {
		return 0
	}
	return max(0, *s.MaxPendingReplicas)
}

// SuccessfulJobsHistoryLimitOrDefault is successfulJobsHistoryLimit, or its default where it is unset or negative.
func (s *ScaledJobSpec) SuccessfulJobsHistoryLimitOrDefault() int32 {
	return orDefault(s.SuccessfulJobsHistoryLimit, DefaultSuccessfulJobsHistoryLimit)
}

// FailedJobsHistoryLimitOrDefault is failedJobsHistoryLimit, or its default where it is unset or negative.
func (s *ScaledJobSpec) FailedJobsHistoryLimitOrDefault() int32 {
	return orDefault(s.FailedJobsHistoryLimit, DefaultFailedJobsHistoryLimit)
}

// PollingInterval is pollingIntervalSeconds, or its default where it is unset or negative.
func (s *ScaledJobSpec) PollingInterval() time.Duration {
	if s.PollingIntervalSeconds <= 0 {
		return time.Duration(DefaultPollingIntervalSeconds) * time.Second
	}
	return time.Duration(s.PollingIntervalSeconds) * time.Second
}

func orDefault(value *int32, otherwise int32) int32 {
	if value == nil || *value < 0 {
		return otherwise
	}
	return *value
}

// ScalingMode says how the operator learns that a queue has grown.
// +kubebuilder:validation:Enum=Events;Tracking;Polling
type ScalingMode string

const (
	// ModeEvents means that Redis sends keyspace notifications, and a Job follows within milliseconds.
	ModeEvents ScalingMode = "Events"
	// ModeTracking means that Redis tracks the keys and reports changes, and a Job follows within milliseconds.
	ModeTracking ScalingMode = "Tracking"
	// ModePolling means that the operator polls: every five seconds by default, less often if very many ScaledJobs
	// share a server, and never less often than the polling interval.
	ModePolling ScalingMode = "Polling"
)

// ScaledJobStatus is the state that the operator observed at the last reconcile.
type ScaledJobStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// queueDepth is the number of outstanding messages at the last successful read. Absent until the first one after an
	// edit of the spec.
	// +optional
	QueueDepth *int64 `json:"queueDepth,omitempty"`

	// queue is the key of the queue, or of the first queue with the number of further queues.
	// +optional
	Queue string `json:"queue,omitempty"`

	// queues are the queues of the spec, in the same order.
	// +optional
	// +listType=atomic
	Queues []QueueStatus `json:"queues,omitempty"`

	// activeJobs is the number of Jobs of this ScaledJob that have not finished, including pending, suspended and
	// terminating Jobs.
	// +optional
	ActiveJobs int32 `json:"activeJobs"`

	// pendingJobs is the number of active Jobs without a ready Pod.
	// +optional
	PendingJobs int32 `json:"pendingJobs"`

	// suspendedJobs is the number of active Jobs that are suspended, for example by a controller such as Kueue that has
	// not admitted them yet. They count as pending too.
	// +optional
	SuspendedJobs int32 `json:"suspendedJobs,omitempty"`

	// desiredJobs is the number of Jobs that should be active, according to the last successful read. Absent until the
	// first one after an edit of the spec.
	// +optional
	DesiredJobs *int32 `json:"desiredJobs,omitempty"`

	// claimedJobs is how many of the active Jobs counted as having taken their messages, with the strategies Accurate and
	// Custom, when desiredJobs was computed. A change of it alone does not update the status. Absent with other
	// strategies, and while desiredJobs is absent.
	// +optional
	ClaimedJobs *int32 `json:"claimedJobs,omitempty"`

	// succeededJobs is the number of succeeded Jobs that still exist.
	// +optional
	SucceededJobs int32 `json:"succeededJobs"`

	// failedJobs is the number of failed Jobs that still exist.
	// +optional
	FailedJobs int32 `json:"failedJobs"`

	// lastScaleTime is when the operator last created a Job.
	// +optional
	LastScaleTime *metav1.Time `json:"lastScaleTime,omitempty"`

	// creationPausedUntil is when the next Job may be created, while creation is paused because Jobs fail, make no
	// progress or are refused, or because messages are orphaned. A message that arrives may get a Job earlier. Absent
	// while creation is not paused.
	// +optional
	CreationPausedUntil *metav1.Time `json:"creationPausedUntil,omitempty"`

	// mode is how the operator learns that the queue has grown: Events (keyspace notifications), Tracking (client
	// tracking) or Polling. Absent until it is known.
	// +optional
	Mode ScalingMode `json:"mode,omitempty"`

	// conditions show whether the operator can read the queue (QueueConnected), whether Redis sends keyspace
	// notifications (NotificationsActive), whether the API server accepts the template (TemplateValid), whether Jobs
	// are held back (ScalingLimited), and whether the ScaledJob works (Ready). If it does not, Stalled means that
	// a user must change something, and Reconciling that the operator retries.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ScaledJob creates Jobs for the messages in Redis queues.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sjob,categories=all
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must be at most 63 characters long, since it becomes a label"
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=".status.queue",description="The key of the queue, or of the first queue with the number of further queues"
// +kubebuilder:printcolumn:name="Depth",type=integer,JSONPath=".status.queueDepth",description="Outstanding messages"
// +kubebuilder:printcolumn:name="Active",type=integer,JSONPath=".status.activeJobs",description="Jobs that have not finished"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".status.desiredJobs",description="Jobs that should be active"
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=".spec.maxReplicas",description="Maximum number of active Jobs"
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=".status.mode",description="How the operator learns of growth: Events, Tracking or Polling"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the ScaledJob works"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp",description="Time since the ScaledJob was created"
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=".status.pendingJobs",priority=1,description="Active Jobs without a ready Pod"
// +kubebuilder:printcolumn:name="SuspendedJobs",type=integer,JSONPath=".status.suspendedJobs",priority=1,description="Active Jobs that are suspended"
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=".spec.suspend",priority=1,description="Whether the creation of Jobs is suspended"
// +kubebuilder:printcolumn:name="LastScale",type=date,JSONPath=".status.lastScaleTime",priority=1,description="When a Job was last created"
// +kubebuilder:printcolumn:name="Limited",type=string,JSONPath=".status.conditions[?(@.type=='ScalingLimited')].reason",priority=1,description="Why Jobs are held back"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].reason",priority=1,description="The reason of Ready"
type ScaledJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ScaledJobSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status ScaledJobStatus `json:"status,omitempty"`
}

// ScaledJobList is a list of ScaledJobs.
//
// +kubebuilder:object:root=true
type ScaledJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ScaledJobs.
	Items []ScaledJob `json:"items"`
}
