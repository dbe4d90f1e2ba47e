// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package race

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// batchSize is how many ScaledJobs race at the same time.
	batchSize = 250
	// slowly is how many of them are disturbed at once where each has to be. The
	// operator keeps up then, and acts while the push is on its way.
	slowly = 4
)

// env is where the batches are, one after the other.
type env struct {
	namespace string
	source    source
	redis     *redistest.Server
	// address is the server's, behind a network.
	address    string
	random     *rand.Rand
	scaledJobs int // that there have been
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// moments are what chance decides about one push.
type moments struct {
	// offset is how long after the disturbance the push comes. It counts from the
	// beginning of the request, or if follows is set from the answer to it.
	offset  time.Duration
	follows bool
	// back says that an edit is undone, and gap how long after it was made.
	back bool
	gap  time.Duration
}

// stage is one way to disturb a subscription.
type stage struct {
	name string
	// window is the longest offset.
	window time.Duration
	// parallel is how many scaledJobs are disturbed at the same time.
	parallel int
	// edits says that the scaledJob is pointed at its other queue.
	edits   bool
	disturb func(ctx context.Context, b *batch, s *scaledJob, m moments) error
}

// The names of the stages.
const (
	created = "a ScaledJob is made"
	edited  = "the queue is edited"
	killed  = "the connection is killed"
)

// stages follow on each other. It takes the operator a moment to act on what is
// asked of the API server, and a tenth of a second to connect again.
var stages = []stage{
	{name: created, window: 30 * time.Millisecond, parallel: slowly, disturb: create},
	{name: edited, window: 30 * time.Millisecond, parallel: slowly, edits: true, disturb: edit},
	{name: killed, window: 200 * time.Millisecond, parallel: batchSize, disturb: kill},
}

func (s stage) draw(random *rand.Rand) moments {
	return moments{
		offset:  time.Duration(random.Int64N(int64(s.window))),
		follows: random.IntN(2) == 0,
		back:    random.IntN(2) == 0,
		gap:     time.Duration(random.Int64N(int64(5 * time.Millisecond))),
	}
}

func create(ctx context.Context, _ *batch, s *scaledJob, _ moments) error { return s.create(ctx) }

// edit has the ScaledJob look at its other queue, in which all messages but the last are as well, or only for a moment.
func edit(ctx context.Context, _ *batch, s *scaledJob, m moments) error {
	if err := s.move(ctx); err != nil || !m.back {
		return err
	}
	return errors.Join(sjtest.Pause(ctx, m.gap), s.move(ctx))
}

// kill ends the connection that all scaledJobs share, once. It returns when that has ended, for each of them.
func kill(ctx context.Context, b *batch, s *scaledJob, _ moments) error {
	if s != b.scaledJobs[0] {
		select {
		case <-b.killed:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	defer close(b.killed)
	ended, err := b.source.kill(ctx, b.redis)
	if err == nil && ended == 0 {
		return errors.New("there was no subscription to kill")
	}
	return err
}

// batch is some ScaledJobs that go through the stages together.
type batch struct {
	*env

	scaledJobs []*scaledJob
	// killed is closed once the connection has been killed.
	killed chan struct{}
}

// newBatch is one of so many scaledJobs, or as many as may race at the same time.
func (e *env) newBatch(scaledJobs int) *batch {
	b := &batch{env: e}
	for range min(scaledJobs, batchSize) {
		e.scaledJobs++
		b.scaledJobs = append(b.scaledJobs, newScaledJob(fmt.Sprintf("scaledjob-%d", e.scaledJobs), e))
	}
	return b
}

// play has every scaledJob disturbed, and pushes one message to each meanwhile. Those whose Job does not come within
// the limit leave the batch and are returned. The others are quiet then: no reconcile is due before the resync.
func (b *batch) play(ctx context.Context, stage stage, limit time.Duration) (lost []*scaledJob, err error) {
	if err := b.collide(ctx, stage); err != nil {
		return nil, fmt.Errorf("%s: %w", stage.name, err)
	}
	err = wait.PollUntilContextTimeout(ctx, pollInterval, limit, true, func(context.Context) (bool, error) {
		lost = b.missing()
		return len(lost) == 0, nil
	})
	if err != nil && !wait.Interrupted(err) {
		return nil, err
	}
	b.scaledJobs = slices.DeleteFunc(slices.Clone(b.scaledJobs), func(s *scaledJob) bool { return slices.Contains(lost, s) })
	return lost, wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, b.quiet)
}

func (b *batch) collide(ctx context.Context, stage stage) error {
	b.killed = make(chan struct{})
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(stage.parallel)
	for _, s := range b.scaledJobs {
		m := stage.draw(b.random)
		all.Go(func() error { return b.race(ctx, stage, s, m) })
	}
	return all.Wait()
}

// race disturbs a scaledJob and pushes a message to the queue that it is to look at in the end.
func (b *batch) race(ctx context.Context, stage stage, s *scaledJob, m moments) error {
	key := s.object.Spec.QueueName
	if stage.edits {
		if err := s.fillOther(ctx); err != nil {
			return err
		}
		if !m.back {
			key = s.other()
		}
	}
	var both errgroup.Group
	answered := make(chan struct{})
	both.Go(func() error {
		defer close(answered)
		return stage.disturb(ctx, b, s, m)
	})
	both.Go(func() error {
		if m.follows {
			<-answered
		}
		return errors.Join(sjtest.Pause(ctx, m.offset), s.push(ctx, key))
	})
	return both.Wait()
}

// missing are the scaledJobs with too few Jobs, and surplus those with too many.
func (b *batch) missing() []*scaledJob {
	return b.those(func(s *scaledJob) bool { return jobs.EverOf(client.ObjectKeyFromObject(s.object)) < s.due })
}

func (b *batch) surplus() []*scaledJob {
	return b.those(func(s *scaledJob) bool { return jobs.EverOf(client.ObjectKeyFromObject(s.object)) > s.due })
}

func (b *batch) those(are func(*scaledJob) bool) (found []*scaledJob) {
	for _, s := range b.scaledJobs {
		if are(s) {
			found = append(found, s)
		}
	}
	return found
}

// quiet says whether the operator has reported all it did: a change of the status
// that waits to be written is a reason for another reconcile.
func (b *batch) quiet(ctx context.Context) (bool, error) {
	var list scaledjobv1.ScaledJobList
	if err := api.List(ctx, &list, client.InNamespace(b.namespace)); err != nil {
		return false, err
	}
	reported := map[types.UID]*scaledjobv1.ScaledJob{}
	for i := range list.Items {
		reported[list.Items[i].UID] = &list.Items[i]
	}
	for _, s := range b.scaledJobs {
		if now := reported[s.object.UID]; now == nil || !s.isReported(now) {
			return false, nil
		}
	}
	return true, nil
}

// end takes away all that the batch has made.
func (b *batch) end(ctx context.Context) error {
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	return errors.Join(
		b.deleteAll(ctx, &scaledjobv1.ScaledJob{}),
		b.deleteAll(ctx, &batchv1.Job{}, background),
		b.redis.Client().FlushAll(ctx).Err())
}

// deleteAll deletes the objects of a kind. A busy API server ends a request that has not deleted all of them in time.
func (b *batch) deleteAll(ctx context.Context, kind client.Object, options ...client.DeleteAllOfOption) error {
	options = append(options, client.InNamespace(b.namespace))
	always := func(error) bool { return true }
	return retry.OnError(retry.DefaultBackoff, always, func() error { return api.DeleteAllOf(ctx, kind, options...) })
}

// scaledJob is a ScaledJob with two queues, of which it looks at one at a time. Its
// Jobs never finish, so that each message asks for one more.
type scaledJob struct {
	redis  *redistest.Server
	object *scaledjobv1.ScaledJob
	keys   [2]string
	// due is how many Jobs there should be, which is the length of the queue.
	due int
}

func newScaledJob(name string, e *env) *scaledJob {
	unlimited := int32(1000)
	s := &scaledJob{redis: e.redis, keys: [2]string{name + ":here", name + ":there"}}
	s.object = &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: name},
		Spec: scaledjobv1.ScaledJobSpec{
			QueueName:              s.keys[0],
			RedisAddress:           e.address,
			Threshold:              1,
			MaxReplicas:            &unlimited,
			PollingIntervalSeconds: sjtest.Never,
			Notifications:          e.source.notifications,
			JobTemplate:            jobwatch.IdleJob(),
		},
	}
	return s
}

// String says which scaledJob it is, for messages.
func (s *scaledJob) String() string { return fmt.Sprintf("%s with %d Jobs due", s.object.Name, s.due) }

func (s *scaledJob) create(ctx context.Context) error { return api.Create(ctx, s.object) }

// other is the queue that the scaledJob does not look at.
func (s *scaledJob) other() string {
	if s.object.Spec.QueueName == s.keys[0] {
		return s.keys[1]
	}
	return s.keys[0]
}

// move points the ScaledJob at its other queue.
func (s *scaledJob) move(ctx context.Context) error {
	before := s.object.DeepCopy()
	s.object.Spec.QueueName = s.other()
	return api.Patch(ctx, s.object, client.MergeFrom(before))
}

// fillOther makes the other queue as long as this one.
func (s *scaledJob) fillOther(ctx context.Context) error {
	messages := make([]any, s.due)
	for i := range messages {
		messages[i] = "message"
	}
	pipe := s.redis.Client().TxPipeline()
	pipe.Del(ctx, s.other())
	pipe.LPush(ctx, s.other(), messages...)
	_, err := pipe.Exec(ctx)
	return err
}

// push asks for one more Job.
func (s *scaledJob) push(ctx context.Context, key string) error {
	s.due++
	return s.redis.Client().LPush(ctx, key, "message").Err()
}

// isReported says whether the status shows the last push and its Job.
func (s *scaledJob) isReported(now *scaledjobv1.ScaledJob) bool {
	status := now.Status
	return status.ObservedGeneration == now.Generation &&
		status.QueueDepth != nil && *status.QueueDepth == int64(s.due) && int(status.ActiveJobs) == s.due
}
