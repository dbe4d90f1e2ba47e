// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/suites/faults"
)

const (
	// parallel is how many tests run at the same time. Each has up to seven servers.
	parallel    = 4
	stopTimeout = time.Minute
	// strikeTimeout is longer than any fault lasts.
	strikeTimeout = 5 * time.Minute
	// capacity is the maxReplicas of the queue that reaches it.
	capacity = 3
)

var tablePath = flag.String("table", "", "the file to write the table of faults to")

var (
	shared *faults.Setting
	table  jobwatch.Table
)

func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(cluster.Run(m, parallel, start, stop))
}

func start(ctx context.Context) (err error) {
	shared, err = faults.NewSetting(ctx, os.Stderr)
	return err
}

func stop(ctx context.Context) error {
	return errors.Join(shared.Stop(ctx), table.Write(*tablePath))
}

// behindSentinels returns a fixture whose queues are behind sentinels.
func behindSentinels(t *testing.T, r *redistest.Replicated, changes ...sjtest.Change) *faults.Fixture {
	t.Helper()
	return fixtureOf(t, shared, failoverClient(r.Addresses()), usual, append([]sjtest.Change{at(scaledjobv1.RedisSentinel, r.Addresses()...)}, changes...)...)
}

// failoverClient returns a client that asks these sentinels.
func failoverClient(sentinels []string) *redis.Client {
	return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: sentinels, MaxRetries: -1})
}

// inCluster returns a fixture whose queues are in a Redis Cluster.
func inCluster(t *testing.T, s *redistest.Sharded, changes ...sjtest.Change) *faults.Fixture {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Addresses(), ClusterStateReloadInterval: time.Second})
	return fixtureOf(t, shared, client, usual, append([]sjtest.Change{at(scaledjobv1.RedisCluster, s.Nodes[0].Addr(), s.Nodes[1].Addr())}, changes...)...)
}

// usual are the queues of most fixtures: two that grow, which in a Cluster may be on different masters, and one that
// reaches its limit.
var usual = map[string]sjtest.Change{
	"growing": asItIs, "more": asItIs, "capped": sjtest.AtMost(capacity),
}

func asItIs(*scaledjobv1.ScaledJobSpec) { /* no change */ }

// at sets the mode and the addresses.
func at(mode scaledjobv1.RedisMode, addresses ...string) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) {
		spec.RedisAddress = ""
		spec.Redis = &scaledjobv1.Redis{Mode: mode, Addresses: addresses}
		if mode == scaledjobv1.RedisSentinel {
			spec.Redis.Sentinel = &scaledjobv1.RedisSentinelAccess{MasterName: redistest.MasterName}
		}
	}
}

// fixtureOf returns a fixture with these queues, each with these changes. At the end of the test the client is closed.
func fixtureOf(
	t *testing.T, setting *faults.Setting, client redis.UniversalClient, queues map[string]sjtest.Change, changes ...sjtest.Change,
) *faults.Fixture {
	t.Helper()
	g := NewWithT(t)
	fixture := must.Get(faults.NewFixtureOf(t.Context(), setting, client, changes...))(g)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
		defer cancel()
		if t.Failed() {
			explain(ctx, t, fixture)
		}
		g.Expect(fixture.Close(ctx)).To(Succeed())
		g.Expect(client.Close()).To(Succeed())
	})
	for name, change := range queues {
		g.Expect(fixture.Add(t.Context(), name, change)).Error().NotTo(HaveOccurred())
	}
	return fixture
}

// explain shows the statuses, and what the operator has logged.
func explain(ctx context.Context, t *testing.T, fixture *faults.Fixture) {
	t.Helper()
	for _, queue := range fixture.Queues {
		is, err := queue.Get(ctx)
		if err != nil {
			t.Logf("%s: %v", queue.Name, err)
			continue
		}
		t.Logf("%s: %s\n%s", queue.Name, sjtest.Explain(&is.Status), queue.Operator.LogsAbout(queue.Namespace+"/"+queue.Name))
	}
}

// play plays a fault, and fails the test unless all Jobs are there that are due, and no others.
func play(t *testing.T, fixture *faults.Fixture, name, promise string, strike func(ctx context.Context, meanwhile faults.Meanwhile) error) {
	t.Helper()
	g := NewWithT(t)
	row, err := fixture.Play(t.Context(), faults.Fault{
		Name: name, Promise: promise,
		Strike: func(ctx context.Context, _ *faults.Target, _ time.Duration, meanwhile faults.Meanwhile) error {
			ctx, cancel := context.WithTimeout(ctx, strikeTimeout)
			t.Cleanup(cancel) // Not before: a strike may add ScaledJobs.
			return strike(ctx, meanwhile)
		},
	}, 0)
	defer func() { table.Add(row) }()
	g.Expect(err).NotTo(HaveOccurred())
	row.Over = must.Get(fixture.Prove(t.Context()))(g)
}

// writable waits until all queues can be pushed to and read.
func writable(ctx context.Context, fixture *faults.Fixture) error {
	return sjtest.Await(ctx, func(ctx context.Context) error {
		for _, q := range fixture.Queues {
			if err := q.Redis.Set(ctx, "{"+q.Queue+"}:probe", 1, 0).Err(); err != nil {
				return err
			}
		}
		return nil
	})
}

// mislead pushes messages to an old master until it knows that it is one no longer, which loses them. No Job is due for
// them.
func mislead(ctx context.Context, old *redistest.Server, keys ...string) error {
	return sjtest.Await(ctx, func(ctx context.Context) error {
		for _, key := range keys {
			err := old.Client().LPush(ctx, key, "lost").Err()
			if err == nil {
				continue
			}
			for _, refusal := range []string{"READONLY", "MOVED", "CLUSTERDOWN"} {
				if strings.HasPrefix(err.Error(), refusal) {
					return nil
				}
			}
			return err
		}
		return errors.New("the old master takes messages")
	})
}

// keysOf returns the keys of the queues.
func keysOf(fixture *faults.Fixture) (keys []string) {
	for _, q := range fixture.Queues {
		keys = append(keys, q.Queue)
	}
	return keys
}
