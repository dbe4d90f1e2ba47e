// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/suites/faults"
)

// clusterFault is a fault of a Redis Cluster that concerns the key of one queue.
type clusterFault struct {
	name, promise string
	strike        func(ctx context.Context, s *redistest.Sharded, key string, meanwhile faults.Meanwhile) error
}

func clusterFaults() []clusterFault {
	const follows, migrates = "the new master is used as soon as a node says so", "read and watched on both nodes"
	return []clusterFault{
		{"CLUSTER FAILOVER", follows, func(ctx context.Context, s *redistest.Sharded, key string, meanwhile faults.Meanwhile) error {
			replica, err := replicaOf(ctx, s, key)
			if err != nil {
				return err
			}
			return errors.Join(replica.Client().ClusterFailover(ctx).Err(), meanwhile(ctx))
		}},
		{"master killed", follows, func(ctx context.Context, s *redistest.Sharded, key string, meanwhile faults.Meanwhile) error {
			master, err := s.Owner(ctx, s.Nodes[0], key)
			if err != nil {
				return err
			}
			return errors.Join(master.Kill(), meanwhile(ctx))
		}},
		{"master stopped, wakes as a second one", "the old master is not read", func(
			ctx context.Context, s *redistest.Sharded, key string, meanwhile faults.Meanwhile,
		) error {
			old, err := s.Owner(ctx, s.Nodes[0], key)
			if err != nil {
				return err
			}
			return errors.Join(old.Pause(), awaitOtherOwner(ctx, s, key, old), old.Resume(), mislead(ctx, old, key), meanwhile(ctx))
		}},
		{"slot moved", migrates, moveTwice},
		{"node added, and removed", migrates, func(ctx context.Context, s *redistest.Sharded, key string, meanwhile faults.Meanwhile) error {
			old, err := s.Owner(ctx, s.Nodes[0], key)
			if err != nil {
				return err
			}
			// Without slots it stays a master.
			fresh, err := s.Add(ctx, redistest.Options{Args: []string{"--cluster-allow-replica-migration", "no"}})
			if err != nil {
				return err
			}
			return errors.Join(s.AwaitAgreed(ctx), move(ctx, s, key, fresh, meanwhile), move(ctx, s, key, old, meanwhile),
				s.Remove(ctx, fresh), meanwhile(ctx))
		}},
	}
}

// replicaOf returns a replica of the master that has a key.
func replicaOf(ctx context.Context, s *redistest.Sharded, key string) (*redistest.Server, error) {
	master, err := s.Owner(ctx, s.Nodes[0], key)
	if err != nil {
		return nil, err
	}
	for i, each := range s.Nodes {
		if each == master {
			return s.Nodes[(i+len(s.Nodes)/2)%len(s.Nodes)], nil
		}
	}
	return nil, errors.New("the master is none of the nodes")
}

// awaitOtherOwner waits until the other nodes name another master for a key.
func awaitOtherOwner(ctx context.Context, s *redistest.Sharded, key string, old *redistest.Server) error {
	return sjtest.Await(ctx, func(ctx context.Context) error {
		by := s.Nodes[0]
		if by == old {
			by = s.Nodes[1]
		}
		owner, err := s.Owner(ctx, by, key)
		if err == nil && owner == old {
			err = errors.New("the nodes name the old master")
		}
		return err
	})
}

// awaitOwner waits until all nodes name this master for a key, and the same epoch. Only then they agree whose claim is
// newer when the slot moves again.
func awaitOwner(ctx context.Context, s *redistest.Sharded, key string, owner *redistest.Server) error {
	return sjtest.Await(ctx, func(ctx context.Context) error {
		epochs := map[string]bool{}
		for _, each := range s.Nodes {
			named, err := s.Owner(ctx, each, key)
			if err != nil {
				return err
			}
			info, err := each.Client().ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			_, epoch, _ := strings.Cut(info, "cluster_current_epoch:")
			epoch, _, _ = strings.Cut(epoch, "\r\n")
			epochs[epoch] = true
			if named != owner || len(epochs) > 1 {
				return errors.New("the nodes do not agree")
			}
		}
		return nil
	})
}

// move moves the slot of a key, and calls meanwhile when each of both nodes has a part of it. It returns when all nodes
// know.
func move(ctx context.Context, s *redistest.Sharded, key string, to *redistest.Server, meanwhile faults.Meanwhile) error {
	moving, err := s.BeginMigration(ctx, key, to)
	if err != nil {
		return err
	}
	return errors.Join(meanwhile(ctx), moving.MoveKeys(ctx), meanwhile(ctx), moving.End(ctx), awaitOwner(ctx, s, key, to))
}

// none does nothing during a fault.
func none(context.Context) error { return nil }

// moveTwice moves the slot of a key to another master and back.
func moveTwice(ctx context.Context, s *redistest.Sharded, key string, meanwhile faults.Meanwhile) error {
	from, err := s.Owner(ctx, s.Nodes[0], key)
	if err != nil {
		return err
	}
	to := s.Nodes[0]
	if to == from {
		to = s.Nodes[1]
	}
	return errors.Join(move(ctx, s, key, to, meanwhile), move(ctx, s, key, from, meanwhile))
}

func TestClusterFaults(t *testing.T) {
	t.Parallel()
	name := func(fault clusterFault) string { return fault.name }
	for _, fault := range skip.AllButNamed(t, clusterFaults(), name, "slot moved") {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			for mode, changes := range map[string][]sjtest.Change{"notifications": nil, "tracking": {sjtest.Tracking}} {
				t.Run(mode, func(t *testing.T) {
					t.Parallel()
					s := redistest.NewSharded(t, redistest.ShardedOptions{})
					fixture := inCluster(t, s, changes...)
					key := fixture.Queues[0].Queue
					play(t, fixture, "in a Cluster, "+fault.name+", "+mode, fault.promise, func(ctx context.Context, meanwhile faults.Meanwhile) error {
						return errors.Join(fault.strike(ctx, s, key, meanwhile), writable(ctx, fixture))
					})
				})
			}
		})
	}
}

// Each of many messages comes while the slot of their key is being moved.
func TestManyPushesToAMovingSlot(t *testing.T) {
	skip.UnderShort(t, "creates 2,000 Jobs; TestClusterFaults moves a slot too")
	t.Parallel()
	const pushes, manyTimeout = 2000, 5 * time.Minute
	s := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1})
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Addresses(), MaxRedirects: 16})
	fixture := fixtureOf(t, shared, client, nil, at(scaledjobv1.RedisCluster, s.Nodes[0].Addr()))
	queue := must.Get(fixture.Add(t.Context(), "many", sjtest.AtMost(2*pushes)))(NewWithT(t))
	fixture.Timeout = manyTimeout
	name := fmt.Sprintf("in a Cluster, slot moved back and forth under %d pushes", pushes)
	play(t, fixture, name, "read and watched on both nodes", func(ctx context.Context, _ faults.Meanwhile) error {
		pushing := make(chan error, 1)
		go func() { pushing <- queue.Push(ctx, pushes) }()
		for {
			select {
			case err := <-pushing:
				return err
			default:
			}
			if err := moveTwice(ctx, s, queue.Queue, none); err != nil {
				return errors.Join(err, <-pushing)
			}
		}
	})
}
