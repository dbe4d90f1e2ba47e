// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The defaults of optional fields, in the field's own unit. The CRD sets them at admission; the methods of ScaledJobSpec apply them to
// objects that were stored before the field had a default.
const (
	DefaultMaxReplicas                int32 = 100
	DefaultPollingIntervalSeconds     int32 = 30
	DefaultSuccessfulJobsHistoryLimit int32 = 100
	DefaultFailedJobsHistoryLimit     int32 = 100
)

// NotificationMode says whether keyspace notifications are used.
// +kubebuilder:validation:Enum=Enabled;Disabled
type NotificationMode string

const (
	// NotificationsEnabled subscribes to the keyspace events of the queue, so that Jobs appear as soon as it grows.
	NotificationsEnabled NotificationMode = "Enabled"
	// NotificationsDisabled reads the depth at every polling interval and at no other time.
	NotificationsDisabled NotificationMode = "Disabled"
)

// ScaledJobSpec names the Redis queues, the template of the Jobs that work them off, and how many Jobs that may be.
//
// +kubebuilder:validation:XValidation:rule="has(self.queueName) != has(self.queues)",message="exactly one of queueName and queues is required",fieldPath=".queueName"
// +kubebuilder:validation:XValidation:rule="has(self.redisAddress) != has(self.redis)",message="exactly one of redisAddress and redis is required",fieldPath=".redisAddress"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.maxReplicas == 0 || self.minReplicas <= self.maxReplicas",message="minReplicas must not be larger than maxReplicas",fieldPath=".minReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.queues) || !has(self.queuesCalculation) || self.queuesCalculation == 'Sum' || !self.queues.exists(q, has(q.role) && q.role == 'InProgress')",message="queues with the role InProgress can only be added up, by queuesCalculation Sum",fieldPath=".queuesCalculation"
type ScaledJobSpec struct {
	// queueName is the key of the Redis list that holds the waiting messages, at most 1024 bytes. Required, unless there are queues.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 1024",message="must be at most 1024 bytes long"
	QueueName string `json:"queueName,omitempty"`

	// queues are the keys whose messages count, of any type, at most 16. Instead of queueName.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +kubebuilder:validation:XValidation:rule="self.exists(q, !has(q.role) || q.role == 'Waiting')",message="at least one queue must be Waiting"
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.name == b.name && ((has(a.stream) && has(a.stream.consumerGroup) ? a.stream.consumerGroup : '') == (has(b.stream) && has(b.stream.consumerGroup) ? b.stream.consumerGroup : '') || (has(a.stream) && has(a.stream.consumerGroup) ? a.stream.consumerGroup : '') == '' || (has(b.stream) && has(b.stream.consumerGroup) ? b.stream.consumerGroup : '') == '') && ((has(a.sortedSet) ? a.sortedSet.window : 'All') == (has(b.sortedSet) ? b.sortedSet.window : 'All') || (has(a.sortedSet) ? a.sortedSet.window : 'All') == 'All' || (has(b.sortedSet) ? b.sortedSet.window : 'All') == 'All' || (has(a.sortedSet) ? a.sortedSet.scoreUnit : 's') != (has(b.sortedSet) ? b.sortedSet.scoreUnit : 's'))))",message="no message may count twice: each queue is to differ from the others in its name, in stream.consumerGroup, or as Due from Live in the same scoreUnit"
	Queues []Queue `json:"queues,omitempty"`

	// queuesCalculation is what several queues amount to: their Sum (default), or the Max, Min or Avg of what is due for each of them, where
	// for Min and Avg only queues count that are not empty.
	// +optional
	// +kubebuilder:default=Sum
	QueuesCalculation QueuesCalculation `json:"queuesCalculation,omitempty"`

	// redisAddress is the Redis server as host:port, an IPv6 address in brackets. Without a scheme and without a path. For a server that asks
	// for no password and no TLS, and database 0. Required, unless there is redis.
	// +optional
	// +kubebuilder:validation:MaxLength=261
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9._])?|\\\\[[0-9A-Fa-f:.]+\\\\]):[0-9]{1,5}$') && int(self.substring(self.lastIndexOf(':') + 1)) >= 1 && int(self.substring(self.lastIndexOf(':') + 1)) <= 65535",message="must be host:port, such as redis.example.svc:6379, without a scheme or path"
	RedisAddress string `json:"redisAddress,omitempty"`

	// redis says where the Redis is and how to sign in there, instead of redisAddress.
	// +optional
	Redis *Redis `json:"redis,omitempty"`

	// threshold is how many messages one Job is for: ceil(depth / threshold) Jobs are due. At least 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Threshold int64 `json:"threshold"`

	// activationThreshold is the depth up to which nothing is due, whatever is running. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ActivationThreshold int64 `json:"activationThreshold,omitempty"`

	// minReplicas is how many Jobs are kept active even while the queue is empty. Default 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	MinReplicas int32 `json:"minReplicas,omitempty"`

	// maxReplicas is how many Jobs may be active at once. 0 means none: no Job is created. Default 100.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=0
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// scalingStrategy says how the number of Jobs follows from the messages.
	// +optional
	ScalingStrategy ScalingStrategy `json:"scalingStrategy,omitzero"`

	// pollingIntervalSeconds is how often the queue is looked at even if no notification came, give or take 10 %. 1 to 3600, default 30.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	PollingIntervalSeconds int32 `json:"pollingIntervalSeconds,omitempty"`

	// notifications says whether Redis keyspace notifications are used to hear of new messages at once: Enabled (default) or Disabled.
	// +optional
	// +kubebuilder:default=Enabled
	Notifications NotificationMode `json:"notifications,omitempty"`

	// suspend stops the creation of Jobs. Running Jobs go on; depth and counts are still reported, old Jobs still pruned, and
	// status.desiredJobs shows what would be due. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// successfulJobsHistoryLimit is how many succeeded Jobs are kept, the newest first. Default 100.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=0
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is how many failed Jobs are kept, the newest first. Default 100.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=0
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`

	// rollout says what becomes of unfinished Jobs when jobTemplate is edited. By default they are left alone.
	// +optional
	Rollout Rollout `json:"rollout,omitzero"`

	// jobTemplate is what a Job is made from. Its labels and annotations are copied to the Job. An unset restartPolicy becomes
	// OnFailure. It must not set selector or manualSelector, nor hold labels or annotations under batch.miracle.dev/.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.template.spec.restartPolicy) || self.spec.template.spec.restartPolicy in ['Never', 'OnFailure']",message="restartPolicy must be Never or OnFailure, or unset",fieldPath=".spec.template.spec.restartPolicy"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.selector)",message="selector must not be set: Kubernetes makes one for each Job",fieldPath=".spec.selector",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.manualSelector)",message="manualSelector must not be set",fieldPath=".spec.manualSelector",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.metadata) || ((!has(self.metadata.labels) || self.metadata.labels.all(k, !k.startsWith('batch.miracle.dev/'))) && (!has(self.metadata.annotations) || self.metadata.annotations.all(k, !k.startsWith('batch.miracle.dev/'))))",message="labels and annotations under batch.miracle.dev/ are reserved for the operator",fieldPath=".metadata"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.template.metadata) || ((!has(self.spec.template.metadata.labels) || self.spec.template.metadata.labels.all(k, !k.startsWith('batch.miracle.dev/'))) && (!has(self.spec.template.metadata.annotations) || self.spec.template.metadata.annotations.all(k, !k.startsWith('batch.miracle.dev/'))))",message="labels and annotations under batch.miracle.dev/ are reserved for the operator",fieldPath=".spec.template.metadata"
	JobTemplate batchv1.JobTemplateSpec `json:"jobTemplate"`
}

// MaxReplicasOrDefault is maxReplicas, or its default where it is unset. A negative one, as an older CRD may have allowed, is 0.
func (s *ScaledJobSpec) MaxReplicasOrDefault() int32 {
	if s.MaxReplicas == nil {
		return DefaultMaxReplicas
	}
	return max(0, *s.MaxReplicas)
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
// +kubebuilder:validation:Enum=Events;Polling
type ScalingMode string

const (
	// ModeEvents means that Redis announces it, and a Job follows within milliseconds.
	ModeEvents ScalingMode = "Events"
	// ModePolling means that it is seen when the depth is next read: every five seconds, or as the operator is told, less often where
	// very many ScaledJobs share a server, and never less often than the polling interval.
	ModePolling ScalingMode = "Polling"
)

// ScaledJobStatus is what the operator saw and did when it last looked.
type ScaledJobStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// queueDepth is how many messages were outstanding when the queue could last be read. Absent until then, since the last edit of the spec.
	// +optional
	QueueDepth *int64 `json:"queueDepth,omitempty"`

	// queue is the key of the queue, or of the first one and how many more there are.
	// +optional
	Queue string `json:"queue,omitempty"`

	// queues are the queues of the spec, in its order.
	// +optional
	// +listType=atomic
	Queues []QueueStatus `json:"queues,omitempty"`

	// activeJobs is how many Jobs of this ScaledJob have not finished: pending, suspended and terminating ones are among them.
	// +optional
	ActiveJobs int32 `json:"activeJobs"`

	// pendingJobs is how many of the active Jobs have no ready Pod.
	// +optional
	PendingJobs int32 `json:"pendingJobs"`

	// desiredJobs is how many Jobs should be active by the last depth that could be read. Absent until then, since the last edit of the spec.
	// +optional
	DesiredJobs *int32 `json:"desiredJobs,omitempty"`

	// succeededJobs is how many succeeded Jobs are still present.
	// +optional
	SucceededJobs int32 `json:"succeededJobs"`

	// failedJobs is how many failed Jobs are still present.
	// +optional
	FailedJobs int32 `json:"failedJobs"`

	// lastScaleTime is when a Job was last created.
	// +optional
	LastScaleTime *metav1.Time `json:"lastScaleTime,omitempty"`

	// rolloutGeneration is the generation of the last edit of jobTemplate that asked, by rollout, for unfinished Jobs to be replaced: those of
	// earlier generations and another template. Absent if none is known.
	// +optional
	RolloutGeneration int64 `json:"rolloutGeneration,omitempty"`

	// mode is how the operator learns that the queue has grown: by Events of Redis, or by Polling. Absent until that is known.
	// +optional
	Mode ScalingMode `json:"mode,omitempty"`

	// conditions say whether the queue can be read (QueueConnected), whether Redis announces its growth (NotificationsActive), whether the
	// template is accepted (TemplateValid), whether something is held back (ScalingLimited), and in sum whether all is well (Ready).
	// While it is not, Reconciling says that time may heal it, or Stalled that a person has to.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ScaledJob turns the messages that wait in a Redis queue into Jobs: as many as are due, as soon as they are due.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.maxReplicas,statuspath=.status.activeJobs
// +kubebuilder:resource:shortName=sjob,categories=all
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must be at most 63 characters long, since it becomes a label"
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=".status.queue",description="The key of the queue, or of the first one and how many more"
// +kubebuilder:printcolumn:name="Depth",type=integer,JSONPath=".status.queueDepth",description="Outstanding messages"
// +kubebuilder:printcolumn:name="Active",type=integer,JSONPath=".status.activeJobs",description="Jobs that have not finished"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".status.desiredJobs",description="Jobs that should be active"
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=".spec.maxReplicas",description="Jobs that may be active"
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=".status.mode",description="How growth is noticed: Events or Polling"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether all is well"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=".status.pendingJobs",priority=1,description="Active Jobs without a ready Pod"
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=".spec.suspend",priority=1,description="Whether creation is stopped"
// +kubebuilder:printcolumn:name="LastScale",type=date,JSONPath=".status.lastScaleTime",priority=1,description="When a Job was last created"
// +kubebuilder:printcolumn:name="Limited",type=string,JSONPath=".status.conditions[?(@.type=='ScalingLimited')].reason",priority=1,description="What holds Jobs back"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].reason",priority=1,description="The reason of Ready"
type ScaledJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec ScaledJobSpec `json:"spec"`
	// status is what was seen and done.
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
