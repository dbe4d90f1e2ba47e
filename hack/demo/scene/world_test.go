// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/sample"
)

const (
	workDuration = time.Second
	tick         = 10 * time.Millisecond
)

// world stands for Redis, the operator and the workers, and tells the board
// what happens. Its faults are what scenes have to notice.
type world struct {
	board *board.Board

	mu           sync.Mutex
	queues       []*fakeQueue
	events       bool
	redisDown    bool
	operatorDown bool

	extra         int  // Jobs created besides those due
	leave         int  // messages left at the end
	ignoreMax     bool // Jobs of all messages at once
	killWithRedis bool // Jobs are deleted while Redis is down
	deaf          bool // no Job is created
}

// fakeQueue is a queue and its ScaledJob.
type fakeQueue struct {
	scaledJob *scaledjobv1.ScaledJob
	depth     int64
	created   int
	started   map[types.UID]time.Time // of active Jobs
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{events: true, queues: []*fakeQueue{
		newFakeQueue(sample.Images, 10, 20), newFakeQueue(sample.Emails, 5, 10), newFakeQueue(sample.Reports, 1, 5),
	}}
	w.board = board.New("fake", "", w.queues[0].scaledJob, w.queues[1].scaledJob, w.queues[2].scaledJob)
	go w.run(t.Context())
	return w
}

func newFakeQueue(name string, threshold int64, maxReplicas int32) *fakeQueue {
	return &fakeQueue{started: map[types.UID]time.Time{}, scaledJob: &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       scaledjobv1.ScaledJobSpec{QueueName: name, Threshold: threshold, MaxReplicas: &maxReplicas},
	}}
}

func (w *world) stage() Stage {
	return Stage{Board: w.board, Queues: w, Events: w, Redis: fakeRedis{w}, Operator: fakeOperator{w}}
}

func (w *world) run(ctx context.Context) {
	for pause(ctx, tick) == nil {
		w.mu.Lock()
		for _, queue := range w.queues {
			w.work(queue)
			if !w.operatorDown {
				w.scale(queue)
				w.report(queue)
			}
		}
		w.mu.Unlock()
	}
}

func (w *world) work(queue *fakeQueue) {
	for uid, started := range queue.started {
		if !w.redisDown && time.Since(started) >= workDuration {
			queue.depth = max(0, queue.depth-queue.scaledJob.Spec.Threshold)
			delete(queue.started, uid)
			w.board.NoteJob(queue.job(uid, batchv1.JobComplete), time.Now())
		}
	}
}

func (w *world) scale(queue *fakeQueue) {
	if w.redisDown || w.deaf {
		return
	}
	wanted := due(int(queue.depth), queue.scaledJob.Spec.Threshold)
	if !w.ignoreMax {
		wanted = min(wanted, int(*queue.scaledJob.Spec.MaxReplicas))
	}
	if missing := wanted - len(queue.started); missing > 0 {
		for range missing + w.extra {
			queue.created++
			uid := types.UID(fmt.Sprint(queue.scaledJob.Name, queue.created))
			queue.started[uid] = time.Now()
			w.board.NoteJob(queue.job(uid), time.Now())
		}
	}
}

func (w *world) report(queue *fakeQueue) {
	reported := queue.scaledJob.DeepCopy()
	reported.Status.Mode = scaledjobv1.ModePolling
	if w.events {
		reported.Status.Mode = scaledjobv1.ModeEvents
	}
	connected := metav1.ConditionTrue
	if w.redisDown {
		connected = metav1.ConditionFalse
	}
	reported.Status.QueueDepth = new(queue.depth)
	reported.Status.ActiveJobs = int32(len(queue.started))
	apimeta.SetStatusCondition(&reported.Status.Conditions, metav1.Condition{
		Type: scaledjobv1.ConditionQueueConnected, Status: connected, Reason: "Fake",
	})
	w.board.NoteScaledJob(reported)
}

// Push implements Queues.
func (w *world) Push(_ context.Context, scaledJob string, messages int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue(scaledJob).depth += int64(messages)
	return nil
}

// Depth implements Queues.
func (w *world) Depth(_ context.Context, scaledJob string) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue(scaledJob).depth + int64(w.leave), nil
}

// Switch implements Events.
func (w *world) Switch(_ context.Context, on bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = on
	return nil
}

func (w *world) queue(name string) *fakeQueue {
	for _, queue := range w.queues {
		if queue.scaledJob.Name == name {
			return queue
		}
	}
	return nil
}

// job returns a Job for which a condition is true.
func (q *fakeQueue) job(uid types.UID, conditions ...batchv1.JobConditionType) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		UID: uid, Labels: map[string]string{scaledjobv1.LabelScaledJob: q.scaledJob.Name},
	}}
	for _, condition := range conditions {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue})
	}
	return job
}

// fakeRedis implements Process.
type fakeRedis struct{ world *world }

func (r fakeRedis) Kill() error {
	w := r.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.redisDown = true
	for _, queue := range w.queues {
		queue.depth = 0
		if !w.killWithRedis {
			continue
		}
		for uid := range queue.started {
			delete(queue.started, uid)
			w.board.NoteDeleted(queue.job(uid))
		}
	}
	return nil
}

func (r fakeRedis) Start(context.Context) error {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	r.world.redisDown = false
	return nil
}

// fakeOperator implements Process.
type fakeOperator struct{ world *world }

func (o fakeOperator) Kill() error {
	o.world.mu.Lock()
	defer o.world.mu.Unlock()
	o.world.operatorDown = true
	return nil
}

func (o fakeOperator) Start(context.Context) error {
	o.world.mu.Lock()
	defer o.world.mu.Unlock()
	o.world.operatorDown = false
	return nil
}
