// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QueueType is the type of the Redis key that holds a queue.
// +kubebuilder:validation:Enum=List;Stream;SortedSet;Set;Hash
type QueueType string

const (
	// QueueList counts the elements of a list.
	QueueList QueueType = "List"
	// QueueStream counts the entries of a stream: with a consumer group the entries that the group has not read yet and
	// those that it has read and not acknowledged, without one all entries.
	QueueStream QueueType = "Stream"
	// QueueSortedSet counts the members of a sorted set, all of them or those within a window of scores.
	QueueSortedSet QueueType = "SortedSet"
	// QueueSet counts the members of a set.
	QueueSet QueueType = "Set"
	// QueueHash counts the fields of a hash.
	QueueHash QueueType = "Hash"
)

// QueueRole says whether the messages of a key wait or are in progress.
// +kubebuilder:validation:Enum=Waiting;InProgress
type QueueRole string

const (
	// RoleWaiting is for messages that no worker has taken yet.
	RoleWaiting QueueRole = "Waiting"
	// RoleInProgress is for messages that a worker has taken and not finished.
	RoleInProgress QueueRole = "InProgress"
)

// SortedSetWindow says which members of a sorted set count, by their scores.
// +kubebuilder:validation:Enum=All;Due;Live
type SortedSetWindow string

const (
	// WindowAll counts all members.
	WindowAll SortedSetWindow = "All"
	// WindowDue counts members with a score up to now, such as delayed messages that are due.
	WindowDue SortedSetWindow = "Due"
	// WindowLive counts members with a score later than now, such as leases that have not expired.
	WindowLive SortedSetWindow = "Live"
)

// ScoreUnit is the unit of the scores, which are times since 1970.
// +kubebuilder:validation:Enum=s;ms;ns;BullMQ
type ScoreUnit string

const (
	// ScoreSeconds is for Unix time in seconds, whole or with a fraction.
	ScoreSeconds ScoreUnit = "s"
	// ScoreMilliseconds is for Unix time in milliseconds.
	ScoreMilliseconds ScoreUnit = "ms"
	// ScoreNanoseconds is for Unix time in nanoseconds.
	ScoreNanoseconds ScoreUnit = "ns"
	// ScoreBullMQ is for Unix time in milliseconds × 4096 plus a number below 4096, as BullMQ and Bull use for delayed
	// jobs.
	ScoreBullMQ ScoreUnit = "BullMQ"
)

// Queue is a Redis key whose messages count.
//
// +kubebuilder:validation:XValidation:rule="!has(self.stream) || has(self.type) && self.type == 'Stream'",message="stream is for a queue of type Stream",fieldPath=".stream",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.sortedSet) || has(self.type) && self.type == 'SortedSet'",message="sortedSet is for a queue of type SortedSet",fieldPath=".sortedSet",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.role) || !has(self.type) || self.type != 'Stream'",message="a Stream has no role: entries that its consumer group has not read are waiting, and unacknowledged entries are in progress",fieldPath=".role",reason=FieldValueForbidden
type Queue struct {
	// name is the key, at most 1024 bytes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 1024",message="must be at most 1024 bytes long"
	Name string `json:"name"`

	// type is the type of the key: List (default), Stream, SortedSet, Set or Hash.
	// +optional
	Type QueueType `json:"type,omitempty"`

	// role says what the messages of this key are: Waiting (default) for a worker, or InProgress, which means that a
	// worker has taken them and not finished. If both keys are named, a message counts once from its push until it is
	// done, even if it moves between the keys. A Stream has no role.
	// +optional
	Role QueueRole `json:"role,omitempty"`

	// threshold is the number of messages of this queue per Job. Default: spec.threshold. A queue with the role
	// InProgress needs the same threshold as the queue that its messages come from.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Threshold *int64 `json:"threshold,omitempty"`

	// stream names the consumer group that reads a queue of type Stream. Without it, all entries of the stream count as
	// waiting.
	// +optional
	Stream *StreamQueue `json:"stream,omitempty"`

	// sortedSet says which members of a queue of type SortedSet count. By default all members count.
	// +optional
	SortedSet *SortedSetQueue `json:"sortedSet,omitempty"`
}

// StreamQueue says which entries of a stream count.
type StreamQueue struct {
	// consumerGroup is the group that the workers use. Entries that it has not read yet are waiting, and entries that
	// it has read and not acknowledged are in progress. To count all entries of the stream instead, leave out the field
	// stream.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ConsumerGroup string `json:"consumerGroup"`
}

// SortedSetQueue says which members of a sorted set count.
//
// +kubebuilder:validation:XValidation:rule="!has(self.scoreUnit) || self.scoreUnit == 's' || (has(self.window) && self.window != 'All')",message="scoreUnit is for the windows Due and Live: the window All ignores the scores",fieldPath=".scoreUnit"
type SortedSetQueue struct {
	// window is All (default), Due for members with a score up to now, or Live for members with a later score.
	// +optional
	Window SortedSetWindow `json:"window,omitempty"`

	// scoreUnit is the unit of the scores, which are times since 1970: s (default), ms, ns, or BullMQ. For the windows
	// Due and Live.
	// +optional
	ScoreUnit ScoreUnit `json:"scoreUnit,omitempty"`
}

// QueuesCalculation says how several queues are combined.
// +kubebuilder:validation:Enum=Sum;Max;Min;Avg
type QueuesCalculation string

const (
	// CalculateSum adds up the Jobs that are due for all queues.
	CalculateSum QueuesCalculation = "Sum"
	// CalculateMax uses the queue with the most Jobs due.
	CalculateMax QueuesCalculation = "Max"
	// CalculateMin uses the queue with the fewest Jobs due, of the queues that are not empty.
	CalculateMin QueuesCalculation = "Min"
	// CalculateAvg uses the average number of Jobs due for the queues that are not empty, rounded up.
	CalculateAvg QueuesCalculation = "Avg"
)

// QueueStatus is the observed state of a queue.
type QueueStatus struct {
	// name is the Redis key.
	// +optional
	Name string `json:"name"`

	// consumerGroup is the consumer group of a stream. The same stream may be named with several groups.
	// +optional
	ConsumerGroup string `json:"consumerGroup,omitempty"`
	// window is the window of a sorted set. The same sorted set may be named with several windows.
	// +optional
	Window SortedSetWindow `json:"window,omitempty"`

	// depth is the number of outstanding messages at the last successful read. Absent until the first one after an edit
	// of the spec.
	// +optional
	Depth *int64 `json:"depth,omitempty"`

	// pendingEntries is how many of the outstanding entries of a stream were delivered to a consumer of the group and not
	// acknowledged. The status is not written because of them alone: they are as old as depth. Absent for other queues,
	// and while depth is absent.
	// +optional
	PendingEntries *int64 `json:"pendingEntries,omitempty"`

	// nonEmptySince is since when the operator has found outstanding messages each time it read the queue. No message is
	// older, unless it came before the operator first read the queue. In a status that changes for no other cause, it may
	// be up to a minute too early. Absent while the queue is empty.
	// +optional
	NonEmptySince *metav1.Time `json:"nonEmptySince,omitempty"`

	// oldestMessageTime is when the oldest outstanding message came: when the entry of a stream was added, or when the
	// member of a sorted set with the window Due became due. The operator asks Redis for it every 10 seconds at most.
	// Absent for other queues, while the queue is empty, and if Redis does not answer.
	// +optional
	OldestMessageTime *metav1.Time `json:"oldestMessageTime,omitempty"`
}

// AllQueues are the queues of the spec with their defaults: those of queues, or the list that queueName names. The CRD
// sets no defaults in the items of a list: a tool that applies a list server-side replaces the whole list, and would
// always report the defaults as a difference from the manifest.
func (s *ScaledJobSpec) AllQueues() []Queue {
	if len(s.Queues) == 0 {
		return []Queue{{Name: s.QueueName, Type: QueueList, Role: RoleWaiting, Threshold: &s.Threshold}}
	}
	all := make([]Queue, len(s.Queues))
	for i, queue := range s.Queues {
		all[i] = queue.withDefaults(&s.Threshold)
	}
	return all
}

// withDefaults returns the queue with its defaults. It shares no sortedSet with the original, which stays as it is.
func (q Queue) withDefaults(threshold *int64) Queue {
	q.Type = cmp.Or(q.Type, QueueList)
	q.Role = cmp.Or(q.Role, RoleWaiting)
	q.Threshold = cmp.Or(q.Threshold, threshold)
	if q.SortedSet != nil {
		q.SortedSet = &SortedSetQueue{
			Window: cmp.Or(q.SortedSet.Window, WindowAll), ScoreUnit: cmp.Or(q.SortedSet.ScoreUnit, ScoreSeconds),
		}
	}
	return q
}
