// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package sjtest has a ScaledJob under test: it creates the ScaledJob, pushes messages to its queue, and observes what
// the operator does.
//
// A [ScaledJob] returns errors, for programs and for goroutines of tests. A [Test] wraps it for tests.
package sjtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/operator"
)

// Never is a pollingIntervalSeconds longer than any test.
const Never = 3600

// Change changes the spec of a ScaledJob.
type Change = func(*scaledjobv1.ScaledJobSpec)

// Polling sets how often the operator reads the queue.
func Polling(seconds int32) Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.PollingIntervalSeconds = seconds }
}

// Tracking has the keys tracked, without a subscription.
func Tracking(spec *scaledjobv1.ScaledJobSpec) {
	spec.Notifications = scaledjobv1.NotificationsTracking
}

// AtMost sets maxReplicas.
func AtMost(jobs int32) Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxReplicas = &jobs }
}

// At sets the address of the Redis server.
func At(address string) Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.RedisAddress = address }
}

// ScaledJob is a ScaledJob under test, with its queue, the operator that serves it, and a watch of its Jobs.
type ScaledJob struct {
	// API is a client of the administrator.
	API client.Client
	// Redis is a client of the server that has the queue, and Address where the operator reaches that server.
	Redis   redis.UniversalClient
	Address string
	// Operator serves the ScaledJob. Only what it logs and measures is asked for. It is nil where no operator runs yet.
	Operator *operator.Operator

	Namespace, Name string
	// Queue is the key of the queue.
	Queue string

	// Object is the ScaledJob as created, and nil before.
	Object *scaledjobv1.ScaledJob
	// Jobs is the watch of the Jobs of this ScaledJob, nil before Observe.
	Jobs *jobwatch.Watch

	pushed atomic.Int64
}

// Neighbour returns another ScaledJob in the same namespace, with a queue of its own in the same server.
func (s *ScaledJob) Neighbour(name, queue string) *ScaledJob {
	return &ScaledJob{
		API: s.API, Redis: s.Redis, Address: s.Address, Operator: s.Operator,
		Namespace: s.Namespace, Name: name, Queue: queue,
	}
}

// Create creates the ScaledJob. Unless changes say otherwise, each message is due one Job, which only the test touches,
// and the operator learns of messages by notifications alone.
func (s *ScaledJob) Create(ctx context.Context, changes ...Change) error {
	object := s.Reference()
	object.Spec = scaledjobv1.ScaledJobSpec{
		QueueName:              s.Queue,
		RedisAddress:           s.Address,
		Threshold:              1,
		PollingIntervalSeconds: Never,
		JobTemplate:            jobwatch.IdleJob(),
	}
	for _, change := range changes {
		change(&object.Spec)
	}
	if err := s.API.Create(ctx, object); err != nil {
		return fmt.Errorf("creating ScaledJob %s: %w", s.Name, err)
	}
	s.Object = object
	if name := object.Spec.QueueName; name != "" {
		s.Queue = name
	}
	return nil
}

// Observe starts the watch of the Jobs, which stays until ctx ends. The limit is how many Jobs may be unfinished at the
// moment, usually Due.
func (s *ScaledJob) Observe(ctx context.Context, config *rest.Config, limit func() int) (err error) {
	s.Jobs, err = jobwatch.Start(ctx, config, s.Object, limit)
	return err
}

// Due is how many Jobs may be unfinished, by the spec as created and what was pushed until now.
func (s *ScaledJob) Due() int {
	spec := s.Object.Spec
	return int(min(int64(spec.MaxReplicasOrDefault()), (s.pushed.Load()+spec.Threshold-1)/spec.Threshold))
}

// Pushed is how many messages the queue was given, at most: a server may not have taken them.
func (s *ScaledJob) Pushed() int { return int(s.pushed.Load()) }

// CountPushed adds messages to those that were pushed, as for one that is pushed in another way than by Push.
func (s *ScaledJob) CountPushed(messages int) { s.pushed.Add(int64(messages)) }

// Push adds messages to the queue, each by a command of its own.
func (s *ScaledJob) Push(ctx context.Context, messages int) error {
	return s.push(ctx, messages, s.Redis.Pipelined)
}

// PushTogether adds messages to the queue in one transaction: whoever looks sees none of them, or all.
func (s *ScaledJob) PushTogether(ctx context.Context, messages int) error {
	return s.push(ctx, messages, s.Redis.TxPipelined)
}

func (s *ScaledJob) push(
	ctx context.Context, messages int, carryOut func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error),
) error {
	s.CountPushed(messages)
	_, err := carryOut(ctx, func(pipe redis.Pipeliner) error {
		for i := range messages {
			pipe.LPush(ctx, s.Queue, i)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pushing to %s: %w", s.Queue, err)
	}
	return nil
}

// Depth returns how many messages are in the queue.
func (s *ScaledJob) Depth(ctx context.Context) (int, error) {
	depth, err := s.Redis.LLen(ctx, s.Queue).Result()
	if err != nil {
		return 0, fmt.Errorf("reading the depth of %s: %w", s.Queue, err)
	}
	return int(depth), nil
}

// Channel is where the server publishes changes of the queue.
func (s *ScaledJob) Channel() string {
	database := 0 // The only one of a Cluster.
	if client, ok := s.Redis.(*redis.Client); ok {
		database = client.Options().DB
	}
	return fmt.Sprintf("__keyspace@%d__:%s", database, s.Queue)
}

// Subscribers returns how many connections are subscribed to the queue.
func (s *ScaledJob) Subscribers(ctx context.Context) (int64, error) {
	counts, err := s.Redis.PubSubNumSub(ctx, s.Channel()).Result()
	return counts[s.Channel()], err
}

// Get returns the ScaledJob as it is now.
func (s *ScaledJob) Get(ctx context.Context) (*scaledjobv1.ScaledJob, error) {
	object := s.Reference()
	if err := s.API.Get(ctx, s.Key(), object); err != nil {
		return nil, fmt.Errorf("reading ScaledJob %s: %w", s.Name, err)
	}
	return object, nil
}

// Update changes the spec.
func (s *ScaledJob) Update(ctx context.Context, changes ...Change) error {
	object, err := s.Get(ctx)
	if err != nil {
		return err
	}
	before := object.DeepCopy()
	for _, change := range changes {
		change(&object.Spec)
	}
	if err := s.API.Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing ScaledJob %s: %w", s.Name, err)
	}
	return nil
}

// Delete deletes the ScaledJob, if it exists.
func (s *ScaledJob) Delete(ctx context.Context, options ...client.DeleteOption) error {
	if err := client.IgnoreNotFound(s.API.Delete(ctx, s.Reference(), options...)); err != nil {
		return fmt.Errorf("deleting ScaledJob %s: %w", s.Name, err)
	}
	return nil
}

// Key is the key of the ScaledJob.
func (s *ScaledJob) Key() client.ObjectKey {
	return client.ObjectKey{Namespace: s.Namespace, Name: s.Name}
}

// Reference names the ScaledJob.
func (s *ScaledJob) Reference() *scaledjobv1.ScaledJob {
	return &scaledjobv1.ScaledJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
}

// Events returns the events about the ScaledJob.
func (s *ScaledJob) Events(ctx context.Context) ([]eventsv1.Event, error) {
	var list eventsv1.EventList
	if err := s.API.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		return nil, fmt.Errorf("reading the events of namespace %s: %w", s.Namespace, err)
	}
	var about []eventsv1.Event
	for _, event := range list.Items {
		if event.Regarding.Name == s.Name {
			about = append(about, event)
		}
	}
	return about, nil
}

// Times returns how often an event has happened.
func Times(event *eventsv1.Event) int {
	if event.Series != nil {
		return int(event.Series.Count)
	}
	return 1
}

const (
	// restReconciles are those of the resync, after the forced ones.
	restReconciles = 3
	// mostLag is how late the operator may hear of the changes that force it.
	mostLag = 500 * time.Millisecond
)

// Exactly has the operator look at the ScaledJob many more times. It returns an error unless exactly as many Jobs were
// ever created as are due after that, and never were too many unfinished.
func (s *ScaledJob) Exactly(ctx context.Context, due func(context.Context) (int, error)) error {
	if err := s.haveLooked(ctx); err != nil {
		return err
	}
	if err := s.Jobs.Sync(ctx); err != nil {
		return err
	}
	if violation := s.Jobs.Violation(); violation != "" {
		return fmt.Errorf("ScaledJob %s: %s", s.Name, violation)
	}
	jobs, err := due(ctx)
	if created := s.Jobs.Created(); err == nil && created != jobs {
		err = fmt.Errorf("ScaledJob %s has got %d Jobs, and %d were due", s.Name, created, jobs)
	}
	return err
}

// forcedReconciles returns how many reconciles of a ScaledJob show that nothing more comes of it.
func forcedReconciles() int {
	if testing.Testing() && testing.Short() {
		return 30
	}
	return 100
}

// haveLooked has the operator look because Jobs change, and then because of the resync, at the shortest interval.
func (s *ScaledJob) haveLooked(ctx context.Context) error {
	if err := s.Disturb(ctx, forcedReconciles()); err != nil {
		return err
	}
	if err := Pause(ctx, mostLag); err != nil {
		return err
	}
	interval := s.Object.Spec.PollingIntervalSeconds
	if err := s.Update(ctx, Polling(1)); err != nil {
		return err
	}
	if err := s.AwaitReconciles(ctx, restReconciles); err != nil {
		return fmt.Errorf("waiting for the resync: %w", err)
	}
	return s.Update(ctx, Polling(interval))
}

// JobCount and PodCount are what quotas call the numbers of Jobs and of Pods.
const (
	JobCount = corev1.ResourceName("count/jobs.batch")
	PodCount = corev1.ResourceName("count/pods")
)

// Limit creates a quota and returns it once it is in force. The API server learns of quotas late, so this one also
// forbids ConfigMaps, and Limit waits until one is refused.
func (s *ScaledJob) Limit(ctx context.Context, name string, hard map[corev1.ResourceName]int64) (*corev1.ResourceQuota, error) {
	hard = maps.Clone(hard)
	hard["count/configmaps"] = 0
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}},
	}
	for of, count := range hard {
		quota.Spec.Hard[of] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	if err := s.API.Create(ctx, quota); err != nil {
		return nil, fmt.Errorf("creating quota %s: %w", name, err)
	}
	err := Await(ctx, func(ctx context.Context) error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "probe"}}
		if err := s.API.Create(ctx, probe, client.DryRunAll); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("a ConfigMap is allowed"), err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting until quota %s is in force: %w", name, err)
	}
	return quota, s.API.Get(ctx, client.ObjectKeyFromObject(quota), quota)
}

// ControlPlane is a cluster with the objects of the operator installed, and the administrator's view of it.
type ControlPlane struct {
	Cluster *cluster.Cluster
	API     client.WithWatch
	AllJobs *jobwatch.AllJobs
}

// Stop stops the cluster, unless the control plane is nil.
func (p *ControlPlane) Stop() error {
	if p == nil {
		return nil
	}
	return p.Cluster.Stop()
}

// NewControlPlane starts a control plane. The context bounds the start.
func NewControlPlane(ctx context.Context, opts cluster.Options) (*ControlPlane, error) {
	started, api, err := operator.StartCluster(ctx, opts)
	if err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(started.Config())
	if err != nil {
		return nil, errors.Join(err, started.Stop())
	}
	jobs, err := jobwatch.WatchAll(clients)
	if err != nil {
		return nil, errors.Join(err, started.Stop())
	}
	return &ControlPlane{Cluster: started, API: api, AllJobs: jobs}, nil
}
