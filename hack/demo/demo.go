// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	// patience is how long any one step may take.
	patience = 30 * time.Second
	// quiet is how long nothing must happen between one push and the next, so
	// that a late Job is not taken for one of the next.
	quiet = 250 * time.Millisecond
)

// pushes are how many messages are pushed at a time. The next ones are pushed
// when those before have been worked off.
var pushes = []int{1, 1, 1, 1, 1, 1, 1, 1, 30, 100, 250}

// demo is what the steps of the demo share.
type demo struct {
	screen *screen
	env    *environment
	kube   client.Client
	sample *scaledjobv1.ScaledJob
	jobs   *jobRecord
}

// show runs the demo in an environment that runs. It fails if anything does,
// and if other than the due Jobs were created.
func show(ctx context.Context, screen *screen, env *environment, keep bool) error {
	sample, err := readSample(env.redis.Addr())
	if err != nil {
		return err
	}
	kube, err := newClient(env)
	if err != nil {
		return err
	}
	d := &demo{screen: screen, env: env, kube: kube, sample: sample, jobs: newJobRecord()}
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group.Go(func() error { return d.watchOperator(ctx) })
	group.Go(func() error {
		defer cancel()
		if err := d.watchCluster(ctx, group); err != nil {
			return err
		}
		return d.play(ctx, keep)
	})
	return group.Wait()
}

func newClient(env *environment) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), scaledjobv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(env.cluster.Config(), client.Options{Scheme: scheme})
}

// watchOperator fails if the operator ends before ctx does.
func (d *demo) watchOperator(ctx context.Context) error {
	select {
	case <-d.env.operator.Exited():
		return errors.New("the operator has ended by itself")
	case <-ctx.Done():
		return nil
	}
}

// watchCluster has Jobs recorded and Pods worked, as a client of its own that
// shares nothing with the operator. It returns when both watches run.
func (d *demo) watchCluster(ctx context.Context, group *errgroup.Group) error {
	watches, err := cache.New(d.env.cluster.Config(), cache.Options{
		Scheme:            d.kube.Scheme(),
		DefaultNamespaces: map[string]cache.Config{namespace: {}},
	})
	if err != nil {
		return err
	}
	workers := &workers{
		client: d.kube,
		redis:  d.env.redis.Client(),
		queue:  d.sample.Spec.QueueName,
		batch:  int(d.sample.Spec.Threshold),
	}
	group.Go(func() error { return watches.Start(ctx) })
	return errors.Join(
		handle(ctx, watches, &batchv1.Job{}, d.jobs.handler()),
		handle(ctx, watches, &corev1.Pod{}, workers.handler(ctx, group)),
	)
}

// handle watches objects of a kind and returns when the watch runs.
func handle(ctx context.Context, watches cache.Cache, kind client.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := watches.GetInformer(ctx, kind)
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(handler)
	return err
}

// play pushes, shows and checks.
func (d *demo) play(ctx context.Context, keep bool) error {
	if err := createReady(ctx, d.kube, d.sample); err != nil {
		return err
	}
	d.introduce()
	if err := pause(ctx, quiet); err != nil {
		return err
	}
	var results []result
	for _, messages := range pushes {
		r, err := d.push(ctx, messages)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	o := outcome{results: results, peak: d.jobs.peakActive(), limit: int(d.sample.Spec.MaxReplicasOrDefault())}
	d.conclude(o)
	if err := o.check(); err != nil || !keep {
		return err
	}
	d.inviteToLookAround()
	<-ctx.Done()
	return nil
}
