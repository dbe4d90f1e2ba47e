// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package race

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// scaledJob is a ScaledJob with two queues, of which it looks at one at a time. Its
// Jobs never finish, so that each message asks for one more.
type scaledJob struct {
	redis  *redistest.Server
	object *scaledjobv1.ScaledJob
	keys   [2]string
	// due is how many Jobs there should be, which is the length of the queue.
	due int
}

func newScaledJob(name string, a *env) *scaledJob {
	unlimited := int32(1000)
	r := &scaledJob{redis: a.redis, keys: [2]string{name + ":here", name + ":there"}}
	r.object = &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name},
		Spec: scaledjobv1.ScaledJobSpec{
			QueueName:              r.keys[0],
			RedisAddress:           a.address,
			Threshold:              1,
			MaxReplicas:            &unlimited,
			PollingIntervalSeconds: 3600,
			Notifications:          a.source.notifications,
			JobTemplate:            witness.IdleJob(),
		},
	}
	return r
}

// String tells which scaledJob it is, for messages.
func (r *scaledJob) String() string { return fmt.Sprintf("%s with %d Jobs due", r.object.Name, r.due) }

func (r *scaledJob) create(ctx context.Context) error { return api.Create(ctx, r.object) }

// other is the queue that the scaledJob does not look at.
func (r *scaledJob) other() string {
	if r.object.Spec.QueueName == r.keys[0] {
		return r.keys[1]
	}
	return r.keys[0]
}

// move points the ScaledJob at its other queue.
func (r *scaledJob) move(ctx context.Context) error {
	before := r.object.DeepCopy()
	r.object.Spec.QueueName = r.other()
	return api.Patch(ctx, r.object, client.MergeFrom(before))
}

// fillOther makes the other queue as long as this one.
func (r *scaledJob) fillOther(ctx context.Context) error {
	messages := make([]any, r.due)
	for i := range messages {
		messages[i] = "message"
	}
	pipe := r.redis.Client().TxPipeline()
	pipe.Del(ctx, r.other())
	pipe.LPush(ctx, r.other(), messages...)
	_, err := pipe.Exec(ctx)
	return err
}

// push asks for one more Job.
func (r *scaledJob) push(ctx context.Context, key string) error {
	r.due++
	return r.redis.Client().LPush(ctx, key, "message").Err()
}

// isReported says whether the status shows the last push and its Job.
func (r *scaledJob) isReported(now *scaledjobv1.ScaledJob) bool {
	status := now.Status
	return status.ObservedGeneration == now.Generation &&
		status.QueueDepth != nil && *status.QueueDepth == int64(r.due) && int(status.ActiveJobs) == r.due
}
