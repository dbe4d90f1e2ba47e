// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9/logging"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// parallel is how many tests run at the same time. They wait more than they work.
	parallel = 16
	// capacity is the maxReplicas of the queues that reach it.
	capacity = 3

	stopTimeout = time.Minute
)

var (
	long      = flag.Bool("long", false, "let faults last long, and judge how soon they are over")
	tablePath = flag.String("table", "", "the file to write the table of faults to")
)

var (
	shared *Setting
	table  jobwatch.Table
)

func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(cluster.Run(m, parallel, start, stop))
}

func start(ctx context.Context) (err error) {
	shared, err = NewSetting(ctx, os.Stderr)
	return err
}

// stop ends what runs. That the operator ends well is a test as well.
func stop(ctx context.Context) error {
	return errors.Join(shared.Stop(ctx), table.Write(*tablePath))
}

// newFixture makes a fixture with a queue that grows and one that reaches its limit. Both go with the test.
func newFixture(t *testing.T, always ...sjtest.Change) *Fixture {
	t.Helper()
	fixture := newEmptyFixture(t, always...)
	add(t, fixture, "growing")
	add(t, fixture, "capped", sjtest.AtMost(capacity))
	return fixture
}

func newEmptyFixture(t *testing.T, always ...sjtest.Change) *Fixture {
	t.Helper()
	g := NewWithT(t)
	fixture := must.Get(NewFixture(t.Context(), shared, always...))(g)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
		defer cancel()
		g.Expect(fixture.Close(ctx)).To(Succeed())
	})
	return fixture
}

func add(t *testing.T, fixture *Fixture, name string, changes ...sjtest.Change) *Queue {
	t.Helper()
	return must.Get(fixture.Add(t.Context(), name, changes...))(NewWithT(t))
}
