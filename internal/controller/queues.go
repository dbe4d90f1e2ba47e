// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/translate"
)

// queues are what was seen of the queues of a spec.
type queues struct {
	// counts are what they hold, in the order of the spec. They mean nothing if err, which says why they could not be read, is not nil.
	counts []queue.Count
	err    *failure.Error
	// rejected is why the server does not take what the Secrets hold now, though it could be read with what they held before.
	rejected *failure.Error
	// failedKey is the one of several keys that could not be read. It is empty if there is none, or no other.
	failedKey string
}

// read reads what the queues hold.
func (r *Reconciler) read(ctx context.Context, namespace string, spec *scaledjobv1.ScaledJobSpec) queues {
	source, err := translate.Source(namespace, spec, spec.AllQueues())
	if err != nil {
		return queues{err: failure.Classify(err)}
	}
	counts, err := r.Queues.Observe(ctx, source)
	seen := queues{counts: counts, err: failure.Classify(err), rejected: r.Servers.Rejected(source.Endpoint)}
	if failed, ok := errors.AsType[*queue.KeyError](err); ok && len(source.Queues) > 1 {
		seen.failedKey = failed.Key
	}
	return seen
}

// compare tells the watcher what each key holds, but for those of which messages fall due without an event, or could not all be counted. It
// returns whether growth of one turned out to be unannounced.
func (r *Reconciler) compare(
	id types.NamespacedName, spec *scaledjobv1.ScaledJobSpec, counts []queue.Count, began time.Time,
) (missed bool) {
	depths, silent := map[string]int64{}, map[string]bool{}
	for i, each := range spec.AllQueues() {
		depths[each.Name] += outstanding(counts[i])
		silent[each.Name] = silent[each.Name] || counts[i].Partial || translate.GrowsUnannounced(each)
	}
	for name, depth := range depths {
		if !silent[name] && r.Watcher.Observed(id, name, depth, began) {
			missed = true
		}
	}
	return missed
}

// outstanding is how many messages of a queue wait or are being worked on.
func outstanding(count queue.Count) int64 {
	return count.Waiting + min(count.InProgress, math.MaxInt64-count.Waiting)
}

// depth is how many messages are outstanding in all of them.
func (q *queues) depth() int64 {
	var depth int64
	for _, count := range q.counts {
		depth += min(outstanding(count), math.MaxInt64-depth)
	}
	return depth
}

// partial says that there may be more messages, which could not be counted.
func (q *queues) partial() bool {
	for _, count := range q.counts {
		if count.Partial {
			return true
		}
	}
	return false
}

// nextDue is when the next message falls due by itself; zero if none does.
func (q *queues) nextDue() time.Time {
	var next time.Time
	for _, count := range q.counts {
		next = earliest(next, count.NextDue)
	}
	return next
}

// progress is another whenever the group of a stream was given messages, or has acknowledged some.
func (q *queues) progress() string {
	var all strings.Builder
	for _, count := range q.counts {
		all.WriteString(count.Progress + " ")
	}
	return all.String()
}

// withoutGroup is a stream that has no such consumer group, and nil if there is none.
func (q *queues) withoutGroup(spec *scaledjobv1.ScaledJobSpec) *scaledjobv1.Queue {
	for i, count := range q.counts {
		if count.GroupMissing {
			return &spec.AllQueues()[i]
		}
	}
	return nil
}

// earliest is the earlier of two times, of which zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
