// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/progress"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const (
	fleetNamespace = "bench-scale"
	// fleetParallel requests of the bare loops are under way at the same time: as many creates as the floor has.
	fleetParallel = 16
	// memoryLimit is what the Deployment sets GOMEMLIMIT to.
	memoryLimit = "536870912"
	// fleetPatience is for what takes longer with more ScaledJobs, and subscriptionsInterval how often those are counted.
	fleetPatience         = 10 * time.Minute
	subscriptionsInterval = 250 * time.Millisecond
)

// fleet is so many ScaledJobs, with a namespace, Redis servers and an operator of their own.
type fleet struct {
	setting *setting
	owner   *contender // what all members share
	servers []*redistest.Server
	running *operator.Operator
	members crowd
	shown   *progress.Line
	// args are further flags of the operator.
	args []string
	// unwatch ends the watch of the Jobs of the members.
	unwatch context.CancelFunc
}

// newFleet has a namespace and so many servers, but neither ScaledJobs nor an operator.
func (s *setting) newFleet(ctx context.Context, servers int) (*fleet, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetNamespace}}
	if err := client.IgnoreAlreadyExists(s.ours.kube.Create(ctx, namespace)); err != nil {
		return nil, fmt.Errorf("creating namespace %s: %w", fleetNamespace, err)
	}
	watching, unwatch := context.WithCancel(ctx)
	seen, err := newArrivals(watching, s.ours.kube, fleetNamespace, ourKind().label)
	if err != nil {
		unwatch()
		return nil, err
	}
	f := &fleet{setting: s, unwatch: unwatch, owner: &contender{
		name: "scale", kube: s.ours.kube, of: ourKind(), arrivals: seen, patience: waitTimeout, reports: true,
	}}
	f.owner.sj = newScaledJob(fleetNamespace, "messages", "")
	for range servers {
		server, err := redistest.Start(ctx, redistest.Options{})
		if err != nil {
			return nil, errors.Join(err, f.close(ctx))
		}
		f.servers = append(f.servers, server)
	}
	return f, nil
}

func (f *fleet) stopServers() (err error) {
	for _, server := range f.servers {
		err = errors.Join(err, server.Stop())
	}
	return err
}

// close ends the operator, the servers and the watch.
func (f *fleet) close(ctx context.Context) error {
	f.unwatch()
	return errors.Join(f.end(context.WithoutCancel(ctx)), f.stopServers())
}

// populate makes the ScaledJobs, which take the servers in turns. The API server does not know them yet.
func (f *fleet) populate(count int) {
	f.members = make(crowd, count)
	for i := range f.members {
		server, member := f.servers[i%len(f.servers)], f.owner.another(fmt.Sprintf("queue-%d", i))
		member.queue, member.sj.Spec.RedisAddress = server.Client(), server.Addr()
		f.members[i] = member
	}
}

// each does something to all members, many at the same time, and shows how far it is.
func (f *fleet) each(ctx context.Context, doing string, do func(context.Context, *contender) error) error {
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fleetParallel)
	for _, member := range f.members {
		group.Go(func() error {
			err := do(ctx, member)
			f.shown.Status("%s, %d of %d", doing, done.Add(1), len(f.members))
			return err
		})
	}
	return group.Wait()
}

func (f *fleet) create(ctx context.Context) error {
	return f.each(ctx, "creating", func(ctx context.Context, member *contender) error {
		return f.owner.kube.Create(ctx, member.sj)
	})
}

// disband deletes the ScaledJobs and their Jobs. No operator is at work any more.
func (f *fleet) disband(ctx context.Context) error {
	err := f.each(ctx, "deleting", func(ctx context.Context, member *contender) error { return member.remove(ctx) })
	for _, server := range f.servers {
		err = errors.Join(err, server.Client().FlushAll(ctx).Err())
	}
	return errors.Join(err, f.deleteJobs(ctx))
}

// deleteJobs deletes all Jobs. The API server ends a request that deletes very many of them before it has deleted all.
func (f *fleet) deleteJobs(ctx context.Context) error {
	for {
		err := f.owner.kube.DeleteAllOf(ctx, &batchv1.Job{},
			client.InNamespace(fleetNamespace), client.PropagationPolicy(metav1.DeletePropagationBackground))
		if !apierrors.IsTimeout(err) {
			return errors.Join(err, f.owner.arrivals.reset(ctx))
		}
	}
}

// start starts the operator, with the memory limit of the Deployment.
func (f *fleet) start(ctx context.Context) (err error) {
	f.running, err = operator.Start(ctx, operator.Options{
		Cluster: f.setting.control,
		Args:    append([]string{"--watch-namespaces=" + fleetNamespace, "--max-redis-servers-per-namespace=0"}, f.args...),

		MemoryLimit: memoryLimit,
	})
	return err
}

// end stops the operator, if it runs.
func (f *fleet) end(ctx context.Context) error {
	if f.running == nil {
		return nil
	}
	err := f.running.Stop(ctx)
	f.running = nil
	return err
}

// spread are members at even distances, so many or all.
func (f *fleet) spread(count int) crowd {
	count = min(count, len(f.members))
	picked := make(crowd, count)
	for i := range picked {
		picked[i] = f.members[i*len(f.members)/count]
	}
	return picked
}

// clear fails unless these members, and no others, have one Job for each of their messages. Then it takes both away,
// and waits until the operator has reported that.
func (f *fleet) clear(ctx context.Context, touched crowd) error {
	ctx, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	f.shown.Status("checking and deleting Jobs")
	if err := errors.Join(scene.Pause(ctx, settleTime), touched.check(ctx)); err != nil {
		return err
	}
	for _, member := range touched {
		if err := member.empty(ctx); err != nil {
			return err
		}
	}
	if err := f.deleteJobs(ctx); err != nil {
		return err
	}
	for _, member := range touched {
		if err := member.idle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// subscribed waits until the operator listens to all queues.
func (f *fleet) subscribed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, subscriptionsInterval, true, func(ctx context.Context) (bool, error) {
		var listening int
		for _, server := range f.servers {
			channels, err := server.Client().PubSubChannels(ctx, "__keyspace@0__:"+f.owner.sj.Spec.QueueName+"-*").Result()
			if err != nil {
				return false, err
			}
			listening += len(channels)
		}
		f.shown.Status("subscribing, %d of %d", listening, len(f.members))
		return listening == len(f.members), nil
	})
}

// heard says whether the operator hears of messages at once.
func heard(status scaledjobv1.ScaledJobStatus) bool { return status.Mode == scaledjobv1.ModeEvents }
