// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// QueueType is the type of the Redis key that holds a queue.
// +kubebuilder:validation:Enum=List;Stream;SortedSet;Set;Hash
type QueueType string

const (
	// QueueList counts the elements of a list.
	QueueList QueueType = "List"
	// QueueStream counts the entries of a stream: with a consumer group those that the group was not given yet and those that it was given
	// and has not acknowledged, without one all.
	QueueStream QueueType = "Stream"
	// QueueSortedSet counts the members of a sorted set, all of them or those within a window of scores.
	QueueSortedSet QueueType = "SortedSet"
	// QueueSet counts the members of a set.
	QueueSet QueueType = "Set"
	// QueueHash counts the fields of a hash.
	QueueHash QueueType = "Hash"
)

// QueueRole says what the messages of a key are waiting for.
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
	// WindowAll counts all members, whatever their scores.
	WindowAll SortedSetWindow = "All"
	// WindowDue counts members whose time has come: a score of now or earlier, as that of a delayed message.
	WindowDue SortedSetWindow = "Due"
	// WindowLive counts members whose time is to come: a score later than now, as that of a lease.
	WindowLive SortedSetWindow = "Live"
)

// ScoreUnit says what a score counts since 1970.
// +kubebuilder:validation:Enum=s;ms;ns;BullMQ
type ScoreUnit string

const (
	// ScoreSeconds is for Unix time in seconds, whole or with a fraction.
	ScoreSeconds ScoreUnit = "s"
	// ScoreMilliseconds is for Unix time in milliseconds.
	ScoreMilliseconds ScoreUnit = "ms"
	// ScoreNanoseconds is for Unix time in nanoseconds.
	ScoreNanoseconds ScoreUnit = "ns"
	// ScoreBullMQ is for Unix time in milliseconds, times 4096, plus a number below that, as BullMQ and Bull use for delayed jobs.
	ScoreBullMQ ScoreUnit = "BullMQ"
)

// Queue is a Redis key whose messages count.
//
// +kubebuilder:validation:XValidation:rule="!has(self.stream) || self.type == 'Stream'",message="stream is for a queue of type Stream",fieldPath=".stream",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.sortedSet) || self.type == 'SortedSet'",message="sortedSet is for a queue of type SortedSet",fieldPath=".sortedSet",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.role) || self.type != 'Stream'",message="a Stream has no role: what its consumer group was not given yet is waiting, and what it was given is in progress",fieldPath=".role",reason=FieldValueForbidden
type Queue struct {
	// name is the key, at most 1024 bytes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 1024",message="must be at most 1024 bytes long"
	Name string `json:"name"`

	// type is that of the key: List (default), Stream, SortedSet, Set or Hash.
	// +optional
	// +kubebuilder:default=List
	Type QueueType `json:"type,omitempty"`

	// role says what its messages are: Waiting (default) for a worker, or InProgress, which is taken by one and not finished. Where both are
	// counted, a message counts from when it is pushed until it is done, however often it moves from one key to the other. Not for a Stream.
	// +optional
	Role QueueRole `json:"role,omitempty"`

	// threshold is how many messages of this queue one Job is for. Default: spec.threshold. A queue that is InProgress needs the same as the
	// queue that its messages come from.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Threshold *int64 `json:"threshold,omitempty"`

	// stream is for a queue of type Stream that is read by a consumer group, and names that. Without it all entries of a stream count as waiting.
	// +optional
	Stream *StreamQueue `json:"stream,omitempty"`

	// sortedSet is for a queue of type SortedSet, and says which scores count, if not all.
	// +optional
	SortedSet *SortedSetQueue `json:"sortedSet,omitempty"`
}

// StreamQueue says whose messages of a stream count.
type StreamQueue struct {
	// consumerGroup is the group whose workers read the stream. Messages that it was not given yet are waiting, and those that it was given
	// and has not acknowledged are in progress. To count all entries of a stream instead, leave stream out.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ConsumerGroup string `json:"consumerGroup"`
}

// SortedSetQueue says which members of a sorted set count.
//
// +kubebuilder:validation:XValidation:rule="!has(self.scoreUnit) || self.scoreUnit == 's' || (has(self.window) && self.window != 'All')",message="scoreUnit is for the windows Due and Live: with All, no score matters",fieldPath=".scoreUnit"
type SortedSetQueue struct {
	// window is All (default), Due, which are members with a score of now or earlier, or Live, which are those with a later one.
	// +optional
	// +kubebuilder:default=All
	Window SortedSetWindow `json:"window,omitempty"`

	// scoreUnit is what the scores count since 1970: s (default), ms, ns, or BullMQ. For the windows Due and Live.
	// +optional
	// +kubebuilder:default=s
	ScoreUnit ScoreUnit `json:"scoreUnit,omitempty"`
}

// QueuesCalculation says what several queues amount to.
// +kubebuilder:validation:Enum=Sum;Max;Min;Avg
type QueuesCalculation string

const (
	// CalculateSum adds up what is due for all queues.
	CalculateSum QueuesCalculation = "Sum"
	// CalculateMax takes the queue for which most Jobs are due.
	CalculateMax QueuesCalculation = "Max"
	// CalculateMin takes the queue for which fewest Jobs are due, of those that are not empty.
	CalculateMin QueuesCalculation = "Min"
	// CalculateAvg takes the mean of what is due for the queues that are not empty, rounded up.
	CalculateAvg QueuesCalculation = "Avg"
)

// QueueStatus is what was last seen of a queue.
type QueueStatus struct {
	// name is the key.
	// +optional
	Name string `json:"name"`

	// consumerGroup is that of a stream, and window that of a sorted set: the same key may be among the queues several times.
	// +optional
	ConsumerGroup string `json:"consumerGroup,omitempty"`
	// +optional
	Window SortedSetWindow `json:"window,omitempty"`

	// depth is how many of its messages were outstanding. Absent until it could be read, since the last edit of the spec.
	// +optional
	Depth *int64 `json:"depth,omitempty"`
}

// AllQueues are the queues of the spec with their defaults: those of queues, or the list that queueName names.
func (s *ScaledJobSpec) AllQueues() []Queue {
	if len(s.Queues) == 0 {
		return []Queue{{Name: s.QueueName, Type: QueueList, Role: RoleWaiting, Threshold: &s.Threshold}}
	}
	all := make([]Queue, len(s.Queues))
	for i, queue := range s.Queues {
		all[i] = queue
		if queue.Threshold == nil {
			all[i].Threshold = &s.Threshold
		}
		if queue.Type == "" {
			all[i].Type = QueueList
		}
		if queue.Role == "" {
			all[i].Role = RoleWaiting
		}
	}
	return all
}
