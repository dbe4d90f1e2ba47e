// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain says why a ScaledJob has as many Jobs as it has. It is pure: the objects are read by its caller, and
// the numbers come from the status and from package scaling, by which the operator decides.
//
//	explain.go     what an explanation consists of
//	arithmetic.go  which Jobs are due, and by which formula
//	jobs.go        the Jobs by state, and what they wait for
//	why.go         why there are so many Jobs, what would change it, and when the operator looks next
//	text.go        the explanation as text
//	plan.go        the same for given numbers: which Jobs would be created
package explain

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/policy"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// Facts are what an explanation is made of.
type Facts struct {
	ScaledJob *scaledjobv1.ScaledJob
	// Jobs are those with the label of the ScaledJob, and Pods their Pods. JobsKnown and PodsKnown are false if they could
	// not be read.
	Jobs                 []*batchv1.Job
	Pods                 []*corev1.Pod
	JobsKnown, PodsKnown bool
	// Quotas are those of the namespace, Events the warnings about Jobs, and Workloads those of Kueue.
	Quotas    []corev1.ResourceQuota
	Events    []corev1.Event
	Workloads []Workload
	// Live are the messages of each queue as Redis has them; nil if they were not read from there.
	Live []scaling.Queue
	// Unreadable says what could not be read, and why.
	Unreadable []string
	// Now is the time at which this was read.
	Now time.Time
}

// Workload is a Workload of Kueue.
type Workload struct {
	// Job is the name of its Job, and Message why it is not admitted; empty if it is.
	Job, Message string
}

// Explanation says why a ScaledJob has as many Jobs as it has.
type Explanation struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	// Summary is the answer in one sentence.
	Summary string `json:"summary"`
	// Live is true if the messages were read from Redis, and false if they are those of the status.
	Live bool `json:"live,omitempty"`
	// Messages are the keys with their outstanding messages, and Outstanding is the number in all of them; absent while it
	// is not known.
	Messages    []Queue `json:"messages"`
	Outstanding *int64  `json:"outstanding,omitempty"`
	// Jobs are the Jobs by state.
	Jobs Jobs `json:"jobs"`
	// Arithmetic are the steps from the messages to the number of desired Jobs, and Desired is that number; absent while
	// it is not known.
	Arithmetic []string `json:"arithmetic"`
	Desired    *int32   `json:"desired,omitempty"`
	// Why says why there are so many Jobs, and Changes what would change it.
	Why     []string `json:"why"`
	Changes []string `json:"changes"`
	// Next says when the operator reads the queue again.
	Next []string `json:"next"`
	// Unreadable says what the user may not read, so that it is not part of the explanation.
	Unreadable []string `json:"unreadable"`
}

// Queue is a key of a ScaledJob with its outstanding messages.
type Queue struct {
	Name          string                      `json:"name"`
	Type          scaledjobv1.QueueType       `json:"type"`
	Role          scaledjobv1.QueueRole       `json:"role"`
	ConsumerGroup string                      `json:"consumerGroup,omitempty"`
	Window        scaledjobv1.SortedSetWindow `json:"window,omitempty"`
	Threshold     int64                       `json:"threshold"`
	// Depth is absent while it is not known. PendingEntries are those of the group of a stream, which are part of Depth.
	Depth          *int64 `json:"depth,omitempty"`
	PendingEntries *int64 `json:"pendingEntries,omitempty"`
}

// explainer makes an explanation.
type explainer struct {
	facts  Facts
	sj     *scaledjobv1.ScaledJob
	policy scaling.Policy
	queues []scaledjobv1.Queue
	owned  jobs.Owned
	// given are the numbers of a plan, or of Redis; nil if those of the status count. planned is true for a plan.
	given   *scaling.Observation
	planned bool
	is      Explanation
}

// Explain returns the explanation.
func Explain(facts Facts) Explanation {
	e := newExplainer(facts)
	e.compute()
	e.explainWhy()
	e.explainNext()
	e.is.Summary = e.summary()
	return e.is
}

// newExplainer returns an explainer that has counted the messages and the Jobs.
func newExplainer(facts Facts) *explainer {
	sj := facts.ScaledJob
	e := &explainer{facts: facts, sj: sj, policy: policy.Of(&sj.Spec), queues: sj.Spec.AllQueues()}
	e.owned = jobs.Classify(facts.Jobs, sj.UID)
	e.is = Explanation{
		Namespace: sj.Namespace, Name: sj.Name, Messages: QueuesOf(sj), Outstanding: sj.Status.QueueDepth,
		Unreadable: append([]string{}, facts.Unreadable...), Arithmetic: []string{}, Why: []string{}, Changes: []string{}, Next: []string{},
	}
	e.is.Jobs = e.countJobs()
	if facts.Live != nil {
		e.useLive()
	}
	return e
}

// useLive replaces the numbers of the status by those of Redis.
func (e *explainer) useLive() {
	e.given = &scaling.Observation{
		Queues: e.facts.Live, Active: int64(e.is.Jobs.Active), Claimed: int64(e.is.Jobs.Claimed), Overdue: e.overdue(),
	}
	outstanding := e.given.Outstanding()
	e.is.Live, e.is.Outstanding = true, &outstanding
	for i := range e.is.Messages {
		depth := e.facts.Live[i].Outstanding()
		e.is.Messages[i].Depth = &depth
		if e.is.Messages[i].ConsumerGroup != "" {
			e.is.Messages[i].PendingEntries = &e.facts.Live[i].InProgress
		}
	}
}

// QueuesOf returns the keys of the spec, with their depths if the status is about the same keys.
func QueuesOf(sj *scaledjobv1.ScaledJob) []Queue {
	queues := sj.Spec.AllQueues()
	all := make([]Queue, len(queues))
	for i, queue := range queues {
		all[i] = Queue{Name: queue.Name, Type: queue.Type, Role: queue.Role, Threshold: *queue.Threshold}
		if queue.Stream != nil {
			all[i].ConsumerGroup = queue.Stream.ConsumerGroup
		}
		if queue.SortedSet != nil {
			all[i].Window = queue.SortedSet.Window
		}
		if seen := sj.Status.Queues; len(seen) == len(queues) && seen[i].Name == queue.Name {
			all[i].Depth, all[i].PendingEntries = seen[i].Depth, seen[i].PendingEntries
		}
	}
	return all
}

// Holding returns the queue with so many messages, which wait or are in progress according to the role of the key.
func (q *Queue) Holding(messages int64) scaling.Queue {
	if pending := q.PendingEntries; pending != nil {
		pending := min(*pending, messages)
		return scaling.Queue{Waiting: messages - pending, InProgress: pending, Threshold: q.Threshold}
	}
	if q.Role == scaledjobv1.RoleInProgress {
		return scaling.Queue{InProgress: messages, Threshold: q.Threshold}
	}
	return scaling.Queue{Waiting: messages, Threshold: q.Threshold}
}
