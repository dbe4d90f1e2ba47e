// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command stage starts what the picture shows: a control plane, the operator, and a Redis server with its default
// settings. It writes a file "env" for a shell, kubectl and a ScaledJob into the folder that it gets, and runs until it
// is interrupted. The containers of the Jobs are simulated: a worker takes one message, and is done after three
// seconds.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/programs"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/workers"
)

const (
	queue        = "emails"
	workDuration = 3 * time.Second
	stopTimeout  = time.Minute
)

const manifest = `apiVersion: batch.miracle.dev/v1
kind: ScaledJob
metadata: {name: emails}
spec:
  redisAddress: %s
  queues: [{name: emails}, {name: "emails:processing", role: InProgress}]
  threshold: 1
  maxReplicas: 50
  jobTemplate:
    spec: {template: {spec: {containers: [{name: worker, image: "example/worker:1"}]}}}
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// stage is what was started. The other fields are nil.
type stage struct {
	redis    *redistest.Server
	control  *cluster.Cluster
	api      client.WithWatch
	operator *operator.Operator
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: stage FOLDER")
	}
	s := &stage{}
	err := s.start(ctx)
	if err == nil {
		err = s.describe(ctx, args[0])
	}
	if err == nil {
		err = s.work(ctx)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(err, s.stop(ending))
}

func (s *stage) start(ctx context.Context) (err error) {
	if s.redis, err = redistest.Start(ctx, redistest.Options{Events: redistest.NoEvents, Log: os.Stderr}); err != nil {
		return err
	}
	s.control, s.api, err = operator.StartCluster(ctx, cluster.Options{ControllerManager: true, FakeNode: true, Log: os.Stderr})
	if err != nil {
		return err
	}
	s.operator, err = operator.Start(ctx, operator.Options{Cluster: s.control, Log: os.Stderr})
	return err
}

func (s *stage) stop(ctx context.Context) error {
	return errors.Join(s.operator.Stop(ctx), s.control.Stop(), s.redis.Stop())
}

// describe writes what a shell needs. The file env is the last one.
func (s *stage) describe(ctx context.Context, folder string) error {
	kubectl, err := programs.Path(ctx, os.Stderr, "kubectl")
	if err != nil {
		return err
	}
	env := fmt.Sprintf("export KUBECONFIG=%s PATH=%s:$PATH REDIS=%s\n", s.control.Kubeconfig(), filepath.Dir(kubectl), s.redis.Addr())
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "emails.yaml"), fmt.Appendf(nil, manifest, s.redis.Addr()), 0o600),
		os.WriteFile(filepath.Join(folder, "env"), []byte(env), 0o600))
}

// work has a worker for each Pod that runs.
func (s *stage) work(ctx context.Context) error {
	pods, err := s.api.Watch(ctx, &corev1.PodList{}, client.HasLabels{scaledjobv1.LabelScaledJob})
	if err != nil {
		return err
	}
	defer pods.Stop()
	var group errgroup.Group
	started := map[types.UID]bool{}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case event, open := <-pods.ResultChan():
			pod, is := event.Object.(*corev1.Pod)
			if !open || !is || event.Type == watch.Error {
				return errors.Join(errors.New("the watch of the Pods has ended"), group.Wait())
			}
			if pod.Status.Phase == corev1.PodRunning && !started[pod.UID] {
				started[pod.UID] = true
				group.Go(func() error { return s.process(ctx, pod) })
			}
		}
	}
	return group.Wait()
}

// process does what the container of a Pod would do.
func (s *stage) process(ctx context.Context, pod *corev1.Pod) error {
	message, found, err := workers.ReliableList(s.redis.Client(), queue).Take(ctx, pod.Name)
	if err != nil {
		return err
	}
	if found {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(workDuration):
		}
		if err := message.Finish(ctx); err != nil {
			return err
		}
	}
	return cluster.Now(ctx, s.api, pod, cluster.PodSucceedAfter)
}
