// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/prometheus"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/witness"
	"miracle.dev/scaledjob-operator/test/kit/workers"
)

const (
	// timeout bounds the wait for a fact.
	timeout = 2 * time.Minute
	// interval is between two scrapes.
	interval = time.Second
)

// stage is what the tests share.
var stage struct {
	*scene.ControlPlane

	// notifying sends notifications, silent does not.
	notifying, silent *redistest.Server
	leader, standby   *operator.Operator
	scaledJobs        []*scene.ScaledJob
	// classic and native scrape both operators, doubled scrapes the leader twice.
	classic, native, doubled *prometheus.Prometheus
}

func TestMain(m *testing.M) {
	gomega.SetDefaultEventuallyTimeout(timeout)
	gomega.SetDefaultEventuallyPollingInterval(interval / 2)
	os.Exit(cluster.Run(m, 0, start, stop))
}

func start(ctx context.Context) (err error) {
	program, err := prometheus.Build(ctx, os.Stderr)
	if err != nil {
		return fmt.Errorf("the tests need Prometheus: %w", err)
	}
	// The controller-manager counts what quotas limit.
	if stage.ControlPlane, err = scene.NewControlPlane(ctx, cluster.Options{ControllerManager: true, Log: os.Stderr}); err != nil {
		return err
	}
	if stage.notifying, err = redistest.Start(ctx, redistest.Options{Events: "Kglszht", Log: os.Stderr}); err != nil {
		return err
	}
	if stage.silent, err = redistest.Start(ctx, redistest.Options{Events: redistest.NoEvents, Log: os.Stderr}); err != nil {
		return err
	}
	if err := startOperators(ctx); err != nil {
		return err
	}
	if err := startPrometheus(ctx, program); err != nil {
		return err
	}
	return perform(ctx)
}

func startOperators(ctx context.Context) (err error) {
	replica := operator.Options{
		Cluster: stage.Cluster, Log: os.Stderr, Args: []string{"--leader-elect", "--leader-election-namespace=" + operator.Namespace},
		MemoryLimit: "1GiB",
	}
	if stage.leader, err = operator.Start(ctx, replica); err != nil {
		return err
	}
	if err := stage.leader.AwaitLead(ctx); err != nil {
		return err
	}
	stage.standby, err = operator.Start(ctx, replica)
	return err
}

func startPrometheus(ctx context.Context, program prometheus.Program) error {
	leader, standby := stage.leader.MetricsAddress(), stage.standby.MetricsAddress()
	again := strings.Replace(leader, "127.0.0.1", "localhost", 1)
	for running, opts := range map[**prometheus.Prometheus]prometheus.Options{
		&stage.classic: {Targets: []string{leader, standby}},
		&stage.native:  {Targets: []string{leader, standby}, Native: true},
		&stage.doubled: {Targets: []string{leader, again}},
	} {
		var err error
		opts.Interval = interval
		if *running, err = program.Start(ctx, opts); err != nil {
			return err
		}
	}
	return nil
}

// perform brings ScaledJobs into all situations in which they have series of their own.
func perform(ctx context.Context) error {
	for name, act := range map[string]func(context.Context, *scene.ScaledJob) error{
		"limited": limited, "tracked": tracked, "stream": stream, "refused": refused, "unreachable": unreachable,
	} {
		namespace, err := stage.Cluster.CreateNamespace(ctx, name)
		if err != nil {
			return err
		}
		s := &scene.ScaledJob{
			API: stage.API, Redis: stage.notifying.Client(), Address: stage.notifying.Addr(), Operator: stage.leader,
			Namespace: namespace, Name: name, Queue: namespace + ":jobs",
		}
		stage.scaledJobs = append(stage.scaledJobs, s)
		if err := act(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// limited has 5 messages and 2 Jobs at most. One more Job has finished, and a connection was lost.
func limited(ctx context.Context, s *scene.ScaledJob) error {
	if err := s.Create(ctx, scene.AtMost(2)); err != nil {
		return err
	}
	if err := s.AwaitSubscription(ctx); err != nil {
		return err
	}
	if err := s.Push(ctx, 5); err != nil {
		return err
	}
	if err := awaitActive(ctx, s, 2); err != nil {
		return err
	}
	jobs, err := stage.AllJobs.In(s.Namespace)
	if err != nil {
		return err
	}
	if err := witness.Complete(ctx, s.API, client.ObjectKeyFromObject(jobs[0])); err != nil {
		return err
	}
	return stage.notifying.Client().ClientKillByFilter(ctx, "TYPE", "pubsub").Err()
}

// tracked has 1 message, in a server that sends no notifications.
func tracked(ctx context.Context, s *scene.ScaledJob) error {
	s.Redis, s.Address = stage.silent.Client(), stage.silent.Addr()
	if err := s.Create(ctx); err != nil {
		return err
	}
	if err := s.AwaitTracked(ctx); err != nil {
		return err
	}
	if err := s.Push(ctx, 1); err != nil {
		return err
	}
	return awaitReady(ctx, s)
}

// stream has 1 message, whose age the operator knows.
func stream(ctx context.Context, s *scene.ScaledJob) error {
	kind, err := workers.ConsumerGroup(ctx, stage.notifying.Client(), s.Queue)
	if err != nil {
		return err
	}
	if err := s.Create(ctx, kind.Count); err != nil {
		return err
	}
	if err := kind.Push(ctx, "message"); err != nil {
		return err
	}
	return awaitReady(ctx, s)
}

// refused has 1 message, and a quota that admits no Job.
func refused(ctx context.Context, s *scene.ScaledJob) error {
	if _, err := s.Limit(ctx, "quota", map[corev1.ResourceName]int64{scene.JobCount: 0}); err != nil {
		return err
	}
	if err := s.Push(ctx, 1); err != nil {
		return err
	}
	return s.Create(ctx, scene.Polling(1))
}

// unreachable names a server that does not exist.
func unreachable(ctx context.Context, s *scene.ScaledJob) error {
	return s.Create(ctx, scene.At("127.0.0.1:1"), scene.Polling(1))
}

func awaitActive(ctx context.Context, s *scene.ScaledJob, jobs int32) error {
	return s.AwaitStatus(ctx, fmt.Sprint(jobs, " active Jobs"), func(object *scaledjobv1.ScaledJob) bool { return object.Status.ActiveJobs == jobs })
}

// awaitReady waits for one Job, and has its Pod be ready: it would count as one that does not start after a minute.
func awaitReady(ctx context.Context, s *scene.ScaledJob) error {
	return scene.Await(ctx, func(ctx context.Context) error {
		jobs, err := stage.AllJobs.In(s.Namespace)
		if err != nil {
			return err
		}
		if len(jobs) != 1 {
			return fmt.Errorf("there are %d Jobs of %s", len(jobs), s.Name)
		}
		return errors.Join(witness.Ready(ctx, s.API, client.ObjectKeyFromObject(jobs[0])), awaitActive(ctx, s, 1))
	})
}

func stop(ctx context.Context) error {
	return errors.Join(
		stage.classic.Stop(ctx), stage.native.Stop(ctx), stage.doubled.Stop(ctx), stage.standby.Stop(ctx), stage.leader.Stop(ctx),
		stage.notifying.Stop(), stage.silent.Stop(), stage.ControlPlane.Stop(),
	)
}
