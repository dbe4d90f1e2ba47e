// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e follows messages to the end of their Jobs: pushed to a real
// Redis, turned into Jobs by the real operator, run by Kubernetes' own Job
// controller, cleaned up by its garbage collector. Only the containers are
// played, see workers. What a user does is done with kubectl.
//
// All tests share one control plane, one operator and one Redis server. Each
// has a namespace and its queues to itself.
package e2e

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const (
	// patience is how long a fact is waited for. It only matters to a test that
	// fails.
	patience = time.Minute
	// glance is how often it is looked for.
	glance = 50 * time.Millisecond

	// atOnce is how many tests run at the same time. They wait more than they
	// work.
	atOnce = 8

	startTimeout = 15 * time.Minute // programs may have to be built first
	stopTimeout  = time.Minute
)

var (
	control *cluster.Cluster
	admin   client.WithWatch
	redis   *redistest.Server
	subject *operator.Operator
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == redisCLI {
		os.Exit(playRedisCLI(context.Background(), os.Args[1:]))
	}
	gomega.SetDefaultEventuallyTimeout(patience)
	gomega.SetDefaultEventuallyPollingInterval(glance)
	log.SetLogger(logr.Discard())
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
	os.Exit(cluster.Run(m, start, stop))
}

func start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if redis, err = redistest.Start(ctx, redistest.Options{Log: os.Stderr}); err != nil {
		return err
	}
	control, err = cluster.Start(ctx, cluster.Options{
		ControllerManager: true, KWOK: true, CRDs: []string{"../../../config/crd/bases"}, Log: os.Stderr,
	})
	if err != nil {
		return err
	}
	if admin, err = operator.NewClient(control.Config()); err != nil {
		return err
	}
	if err := operator.Install(ctx, control); err != nil {
		return err
	}
	subject, err = operator.Start(ctx, operator.Options{Cluster: control, Log: os.Stderr})
	return err
}

// stop ends what runs. That the operator ends well is a test as well.
func stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var errs []error
	if subject != nil {
		errs = append(errs, subject.Stop(ctx))
	}
	if control != nil {
		errs = append(errs, control.Stop())
	}
	if redis != nil {
		errs = append(errs, redis.Stop())
	}
	return errors.Join(errs...)
}
