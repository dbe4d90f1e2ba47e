// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package behaviour tests what the operator promises, from outside: the real
// binary, run as the ServiceAccount that is shipped, works for ScaledJobs in a
// real API server with real Redis servers.
//
// Most tests share one operator, which works for every namespace of a control
// plane where Pods run. Each has a namespace and a queue to itself. Tests about
// the life of an operator bring their own, which works for their namespace
// alone, in a second control plane that has no other and where no Pod runs.
package behaviour

import (
	"context"
	"errors"
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const (
	// patience is how long a fact is waited for. It is usually there within
	// milliseconds, but Kubernetes' own controllers back off for longer.
	patience = time.Minute
	// glance is how often it is looked for.
	glance = 50 * time.Millisecond
	// noFallback is given to operators, so that no depth is read which no
	// notification, Job or resync asked for: a lost wake-up shows.
	noFallback = "--polling-fallback-interval=0"
	// calm is how long nothing must happen where no fact tells that it will not.
	calm = 2 * time.Second

	// atOnce is how many tests run at the same time. They wait more than they
	// work.
	atOnce = 8

	startTimeout = 15 * time.Minute // programs may have to be built first
	stopTimeout  = time.Minute
)

var (
	// common is the control plane of the shared operator and Redis server.
	common *plane
	shared struct {
		operator *operator.Operator
		redis    *redistest.Server
	}
	// bare is the control plane of the tests that start operators themselves.
	bare *plane
)

func TestMain(m *testing.M) {
	gomega.SetDefaultEventuallyTimeout(patience)
	gomega.SetDefaultEventuallyPollingInterval(glance)
	gomega.SetDefaultConsistentlyDuration(calm)
	gomega.SetDefaultConsistentlyPollingInterval(glance)
	log.SetLogger(logr.Discard())
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
	os.Exit(cluster.Run(m, start, stop))
}

func start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var group errgroup.Group
	group.Go(func() error { return startShared(ctx) })
	group.Go(func() (err error) {
		bare, err = newPlane(ctx, cluster.Options{Log: os.Stderr})
		return err
	})
	return group.Wait()
}

func startShared(ctx context.Context) (err error) {
	if shared.redis, err = redistest.Start(ctx, redistest.Options{Log: os.Stderr}); err != nil {
		return err
	}
	if common, err = newPlane(ctx, cluster.Options{ControllerManager: true, KWOK: true, Log: os.Stderr}); err != nil {
		return err
	}
	shared.operator, err = operator.Start(ctx, operator.Options{
		Cluster: common.control, Args: []string{noFallback}, Log: os.Stderr,
	})
	return err
}

// stop ends what runs. That the shared operator ends well is a test as well.
func stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var errs []error
	if shared.operator != nil {
		errs = append(errs, shared.operator.Stop(ctx))
	}
	if shared.redis != nil {
		errs = append(errs, shared.redis.Stop())
	}
	for _, p := range []*plane{common, bare} {
		if p != nil {
			errs = append(errs, p.control.Stop())
		}
	}
	return errors.Join(errs...)
}
