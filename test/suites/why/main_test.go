// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package why tests that a ScaledJob says why messages wait: each situation in which messages are in Redis and no Job
// is created, or none runs, is brought about with a real API server and controller-manager, a real Redis and the real
// operator. The conditions must name the cause, in the words of whoever caused it, and the cure. When the cause ends,
// they must say so without an edit of the ScaledJob.
//
// kubectl scaledjob explain must name the same cause and cure.
//
// The situations are a table, in one file for each part: what refuses Jobs, why Jobs do not run, Redis, and the spec.
// With -args -record=FOLDER, what kubectl describe shows in each situation is written to a file there, for people to
// read: do they find the cause? The files have numbers instead of names, and answers.txt has the names.
package why

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// timeout bounds the wait for a fact. That Jobs do not start is reported after a minute, and Kubernetes and the
	// operator back off.
	timeout = 2 * time.Minute
	// pollInterval is how often a fact is looked for.
	pollInterval = 100 * time.Millisecond
	// parallel is how many situations there are at the same time. They wait more than they work.
	parallel = 40

	// deniedHost is an address that the operator must not connect to, and mostServers how many databases a namespace
	// may use.
	deniedHost  = "127.0.0.2"
	mostServers = "3"
	// allEvents are the notifications of every type of queue.
	allEvents = "Kglszht"
)

var recordFolder = flag.String("record", "", "the folder to write what kubectl describe shows to")

// setting is a control plane and the operator in it.
type setting struct {
	*sjtest.ControlPlane

	operator *operator.Operator
}

var (
	// shared is where most situations are.
	shared setting
	// redisServer has most queues.
	redisServer *redistest.Server
	// restricted has an operator that lacks permissions, and replicated are servers that a sentinel watches. Both are
	// started when first needed.
	restricted lazy[*setting]
	replicated lazy[*redistest.Replicated]
)

func TestMain(m *testing.M) {
	gomega.SetDefaultEventuallyTimeout(timeout)
	gomega.SetDefaultEventuallyPollingInterval(pollInterval)
	os.Exit(cluster.Run(m, parallel, start, stop))
}

func start(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() (err error) {
		redisServer, err = redistest.Start(ctx, redistest.Options{Events: allEvents, Log: os.Stderr})
		return err
	})
	group.Go(func() (err error) {
		opts := cluster.Options{ControllerManager: true, FakeNode: true, Log: os.Stderr}
		if shared.ControlPlane, err = sjtest.NewControlPlane(ctx, opts); err != nil {
			return err
		}
		return shared.operate(ctx)
	})
	return group.Wait()
}

// operate starts the operator.
func (s *setting) operate(ctx context.Context) (err error) {
	s.operator, err = operator.Start(ctx, operator.Options{
		Cluster: s.Cluster, Log: os.Stderr, Networks: "127.0.0.1/32",
		Args: []string{
			"--redis-deny-cidrs=" + deniedHost + "/32", "--max-redis-servers-per-namespace=" + mostServers, "--zap-log-level=debug",
		},
	})
	return err
}

// stop ends the operator and the control plane. It is an error if the log or a metric has a password.
func (s *setting) stop(ctx context.Context) (err error) {
	if s.operator != nil {
		var metrics string
		metrics, err = operator.Get(ctx, s.operator.MetricsURL())
		err = errors.Join(err, s.operator.Stop(ctx))
		for _, secret := range []string{password, wrong, "PRIVATE KEY"} {
			if strings.Contains(metrics+s.operator.Logs(), secret) {
				err = errors.Join(err, errors.New("the operator shows a secret"))
			}
		}
	}
	return errors.Join(err, s.Stop())
}

// stop ends what runs. That the operators end well is a test as well.
func stop(ctx context.Context) error {
	errs := []error{shared.stop(ctx)}
	if restricted.value != nil {
		errs = append(errs, restricted.value.stop(ctx))
	}
	if replicated.value != nil {
		errs = append(errs, replicated.value.Stop())
	}
	return errors.Join(append(errs, redisServer.Stop())...)
}
