// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

const (
	// atOnce is how many tests run at the same time. They wait more than they work.
	atOnce = 16
	// capacity is the maxReplicas of the queues that reach it.
	capacity = 3

	startTimeout = 15 * time.Minute // programs may have to be built first
	stopTimeout  = time.Minute
)

var (
	long      = flag.Bool("long", false, "let faults last long, and judge how soon they are over")
	tablePath = flag.String("table", "", "the file to write the table of faults to")
)

var (
	shared *Setting
	table  witness.Table
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
	ctrl.SetLogger(logr.Discard())
	connection.RedirectLogs(logr.Discard())
	os.Exit(cluster.Run(m, start, stop))
}

func start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	shared, err = NewSetting(ctx, "../../../config/crd/bases", os.Stderr)
	return err
}

// stop ends what runs. That the operator ends well is a test as well.
func stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var err error
	if shared != nil {
		err = shared.Stop(ctx)
	}
	return errors.Join(err, table.Write(*tablePath))
}

// newFixture makes a fixture with a queue that grows and one that reaches its limit.
// Both go with the test.
func newFixture(t *testing.T) *Fixture {
	t.Helper()
	fixture := newEmptyFixture(t)
	add(t, fixture, "growing")
	add(t, fixture, "capped", atMost(capacity))
	return fixture
}

func newEmptyFixture(t *testing.T) *Fixture {
	t.Helper()
	g := NewWithT(t)
	fixture, err := NewFixture(t.Context(), shared)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
		defer cancel()
		g.Expect(fixture.Close(ctx)).To(Succeed())
	})
	return fixture
}

func add(t *testing.T, fixture *Fixture, name string, changes ...func(*scaledjobv1.ScaledJobSpec)) *Queue {
	t.Helper()
	q, err := fixture.Add(t.Context(), name, changes...)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return q
}

// atMost sets maxReplicas.
func atMost(jobs int32) func(*scaledjobv1.ScaledJobSpec) {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxReplicas = &jobs }
}
