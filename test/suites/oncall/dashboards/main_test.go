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
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/prometheus"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/workers"
)

const (
	// timeout bounds the wait for a fact.
	timeout = 2 * time.Minute
	// interval is between two scrapes.
	interval = time.Second
	// quiet is how long a ScaledJob has not been reconciled when messages are pushed. The read after a subscription would
	// find them, which is no reaction to a notification, and has no series.
	quiet = time.Second
)

// stage is what the tests share.
var stage struct {
	*sjtest.ControlPlane

	// notifying sends notifications, silent does not.
	notifying, silent *redistest.Server
	leader, standby   *operator.Operator
	scaledJobs        []*sjtest.ScaledJob
	// classic and native scrape both operators, doubled scrapes the leader twice.
	classic, native, doubled *prometheus.Prometheus
}

func TestMain(m *testing.M) {
	gomega.SetDefaultEventuallyTimeout(timeout)
	gomega.SetDefaultEventuallyPollingInterval(interval / 2)
	os.Exit(cluster.Run(m, 0, start, stop))
}

func start(ctx context.Context) error {
	return must.Try(func(g gomega.Gomega) {
		program, err := prometheus.Build(ctx, os.Stderr)
		g.Expect(err).NotTo(gomega.HaveOccurred(), "the tests need Prometheus")
		// The controller-manager counts what quotas limit.
		stage.ControlPlane = must.Get(sjtest.NewControlPlane(ctx, cluster.Options{ControllerManager: true, Log: os.Stderr}))(g)
		stage.notifying = must.Get(redistest.Start(ctx, redistest.Options{Events: "Kglszht", Log: os.Stderr}))(g)
		stage.silent = must.Get(redistest.Start(ctx, redistest.Options{Events: redistest.NoEvents, Log: os.Stderr}))(g)
		startOperators(ctx, g)
		startPrometheus(ctx, g, program)
		perform(ctx, g)
	})
}

func startOperators(ctx context.Context, g gomega.Gomega) {
	replica := operator.Options{
		Cluster: stage.Cluster, Log: os.Stderr, Args: []string{"--leader-elect", "--leader-election-namespace=" + operator.Namespace},
		MemoryLimit: "1GiB",
	}
	stage.leader = must.Get(operator.Start(ctx, replica))(g)
	g.Expect(stage.leader.AwaitLead(ctx)).To(gomega.Succeed())
	stage.standby = must.Get(operator.Start(ctx, replica))(g)
}

func startPrometheus(ctx context.Context, g gomega.Gomega, program prometheus.Program) {
	leader, standby := stage.leader.MetricsAddress(), stage.standby.MetricsAddress()
	again := strings.Replace(leader, "127.0.0.1", "localhost", 1)
	for running, opts := range map[**prometheus.Prometheus]prometheus.Options{
		&stage.classic: {Targets: []string{leader, standby}},
		&stage.native:  {Targets: []string{leader, standby}, Native: true},
		&stage.doubled: {Targets: []string{leader, again}},
	} {
		opts.Interval = interval
		*running = must.Get(program.Start(ctx, opts))(g)
	}
}

// perform brings ScaledJobs into all situations in which they have series of their own.
func perform(ctx context.Context, g gomega.Gomega) {
	for name, act := range map[string]func(context.Context, gomega.Gomega, *sjtest.ScaledJob){
		"limited": limited, "tracked": tracked, "stream": stream, "refused": refused, "unreachable": unreachable,
	} {
		namespace := must.Get(stage.Cluster.CreateNamespace(ctx, name))(g)
		s := &sjtest.ScaledJob{
			API: stage.API, Redis: stage.notifying.Client(), Address: stage.notifying.Addr(), Operator: stage.leader,
			Namespace: namespace, Name: name, Queue: namespace + ":jobs",
		}
		stage.scaledJobs = append(stage.scaledJobs, s)
		act(ctx, g, s)
	}
}

// limited has 5 messages and 2 Jobs at most. One more Job has finished, and a connection was lost.
func limited(ctx context.Context, g gomega.Gomega, s *sjtest.ScaledJob) {
	g.Expect(s.Create(ctx, sjtest.AtMost(2))).To(gomega.Succeed())
	g.Expect(s.AwaitSubscription(ctx)).To(gomega.Succeed())
	g.Expect(s.AwaitQuiet(ctx, quiet)).To(gomega.Succeed())
	g.Expect(s.Push(ctx, 5)).To(gomega.Succeed())
	g.Expect(awaitActive(ctx, s, 2)).To(gomega.Succeed())
	jobs := must.Get(stage.AllJobs.In(s.Namespace))(g)
	g.Expect(jobwatch.Complete(ctx, s.API, client.ObjectKeyFromObject(jobs[0]))).To(gomega.Succeed())
	g.Expect(stage.notifying.Client().ClientKillByFilter(ctx, "TYPE", "pubsub").Err()).To(gomega.Succeed())
}

// tracked has 1 message, in a server that sends no notifications.
func tracked(ctx context.Context, g gomega.Gomega, s *sjtest.ScaledJob) {
	s.Redis, s.Address = stage.silent.Client(), stage.silent.Addr()
	g.Expect(s.Create(ctx)).To(gomega.Succeed())
	g.Expect(s.AwaitTracked(ctx)).To(gomega.Succeed())
	g.Expect(s.AwaitQuiet(ctx, quiet)).To(gomega.Succeed())
	g.Expect(s.Push(ctx, 1)).To(gomega.Succeed())
	g.Expect(awaitReady(ctx, s)).To(gomega.Succeed())
}

// stream has 1 message, whose age the operator knows.
func stream(ctx context.Context, g gomega.Gomega, s *sjtest.ScaledJob) {
	kind := must.Get(workers.ConsumerGroup(ctx, stage.notifying.Client(), s.Queue))(g)
	g.Expect(s.Create(ctx, kind.Count)).To(gomega.Succeed())
	g.Expect(kind.Push(ctx, "message")).To(gomega.Succeed())
	g.Expect(awaitReady(ctx, s)).To(gomega.Succeed())
}

// refused has 1 message, and a quota that admits no Job.
func refused(ctx context.Context, g gomega.Gomega, s *sjtest.ScaledJob) {
	must.Get(s.Limit(ctx, "quota", map[corev1.ResourceName]int64{sjtest.JobCount: 0}))(g)
	g.Expect(s.Push(ctx, 1)).To(gomega.Succeed())
	g.Expect(s.Create(ctx, sjtest.Polling(1))).To(gomega.Succeed())
}

// unreachable names a server that does not exist.
func unreachable(ctx context.Context, g gomega.Gomega, s *sjtest.ScaledJob) {
	g.Expect(s.Create(ctx, sjtest.At("127.0.0.1:1"), sjtest.Polling(1))).To(gomega.Succeed())
}

func awaitActive(ctx context.Context, s *sjtest.ScaledJob, jobs int32) error {
	return s.AwaitStatus(ctx, fmt.Sprint(jobs, " active Jobs"), func(object *scaledjobv1.ScaledJob) bool { return object.Status.ActiveJobs == jobs })
}

// awaitReady waits for one Job, and has its Pod be ready: it would count as one that does not start after a minute.
func awaitReady(ctx context.Context, s *sjtest.ScaledJob) error {
	return sjtest.Await(ctx, func(ctx context.Context) error {
		jobs, err := stage.AllJobs.In(s.Namespace)
		if err != nil {
			return err
		}
		if len(jobs) != 1 {
			return fmt.Errorf("there are %d Jobs of %s", len(jobs), s.Name)
		}
		return errors.Join(jobwatch.Ready(ctx, s.API, client.ObjectKeyFromObject(jobs[0])), awaitActive(ctx, s, 1))
	})
}

func stop(ctx context.Context) error {
	return errors.Join(
		stage.classic.Stop(ctx), stage.native.Stop(ctx), stage.doubled.Stop(ctx), stage.standby.Stop(ctx), stage.leader.Stop(ctx),
		stage.notifying.Stop(), stage.silent.Stop(), stage.Stop(),
	)
}
