// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// slots is the number of slots of a Redis Cluster.
	slots = 16384
	// nodeTimeout is how long a master may be silent until the others count it as failing.
	nodeTimeout = time.Second
)

// ShardedOptions are the choices of NewSharded.
type ShardedOptions struct {
	// Options are those of each node.
	Options

	// Masters is how many masters there are, and Replicas how many replicas each has. 0 means 3, and -1 none.
	Masters, Replicas int
}

// Sharded is a Redis Cluster.
type Sharded struct {
	// Nodes are first the masters, with even parts of the slots, and then the replicas of each.
	Nodes []*Server
}

// startSharded starts a Redis Cluster, and returns when all nodes agree about it.
func startSharded(ctx context.Context, opts ShardedOptions) (_ *Sharded, err error) {
	if opts.Masters == 0 {
		opts.Masters = 3
	}
	if opts.Replicas == 0 {
		opts.Replicas = 1
	}
	s := &Sharded{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	for range opts.Masters * (1 + max(0, opts.Replicas)) {
		if _, err := s.Add(ctx, opts.Options); err != nil {
			return nil, err
		}
	}
	for i, master := range s.Nodes[:opts.Masters] {
		first, last := i*slots/opts.Masters, (i+1)*slots/opts.Masters-1
		if err := master.Client().ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			return nil, err
		}
	}
	for i, replica := range s.Nodes[opts.Masters:] {
		if err := s.replicate(ctx, replica, s.Nodes[i%opts.Masters]); err != nil {
			return nil, err
		}
	}
	return s, s.AwaitAgreed(ctx)
}

// NewSharded starts a Redis Cluster for a test, at whose end everything is stopped.
func NewSharded(tb testing.TB, opts ShardedOptions) *Sharded {
	tb.Helper()
	return forTest(tb, "a Redis Cluster", func(ctx context.Context) (*Sharded, error) { return startSharded(ctx, opts) })
}

// Add starts another node, which has no slots, and waits until all know it.
func (s *Sharded) Add(ctx context.Context, opts Options) (*Server, error) {
	opts.Cluster = true
	opts.Args = append([]string{
		"--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10), "--repl-diskless-sync-delay", "0",
	}, opts.Args...)
	node, err := Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	s.Nodes = append(s.Nodes, node)
	bus, err := node.busPort()
	if err != nil {
		return nil, err
	}
	nodeHost, port, err := net.SplitHostPort(node.Addr())
	if err != nil {
		return nil, err
	}
	if err := s.Nodes[0].Client().Do(ctx, "cluster", "meet", nodeHost, port, bus).Err(); err != nil {
		return nil, err
	}
	return node, s.awaitAll(ctx, "until all nodes know each other", func(ctx context.Context, each *Server) (bool, error) {
		known, err := each.Client().ClusterNodes(ctx).Result()
		return err == nil && strings.Count(known, " connected") == len(s.Nodes) && !strings.Contains(known, "handshake"), err
	})
}

// Remove has all nodes forget one without slots and replicas, and stops it.
func (s *Sharded) Remove(ctx context.Context, node *Server) error {
	id, err := node.Client().ClusterMyID(ctx).Result()
	if err != nil {
		return err
	}
	s.Nodes = slices.DeleteFunc(s.Nodes, func(each *Server) bool { return each == node })
	for _, each := range s.Nodes {
		err = errors.Join(err, each.Client().ClusterForget(ctx, id).Err())
	}
	return errors.Join(err, node.Stop())
}

// busPort returns the port for the other nodes.
func (s *Server) busPort() (string, error) {
	for i, arg := range s.args {
		if arg == "--cluster-port" {
			return s.args[i+1], nil
		}
	}
	return "", errors.New("the server is not a node of a cluster")
}

// replicate makes a node without slots a replica of another one.
func (s *Sharded) replicate(ctx context.Context, replica, of *Server) error {
	id, err := of.Client().ClusterMyID(ctx).Result()
	if err != nil {
		return err
	}
	return replica.Client().ClusterReplicate(ctx, id).Err()
}

// AwaitAgreed waits until all nodes say that all slots have a master, and all replicas have the data.
func (s *Sharded) AwaitAgreed(ctx context.Context) error {
	return s.awaitAll(ctx, "until the cluster works", func(ctx context.Context, each *Server) (bool, error) {
		info, err := each.Client().ClusterInfo(ctx).Result()
		if err != nil || !strings.Contains(info, "cluster_state:ok") {
			return false, err
		}
		replication, err := each.Client().Info(ctx, "replication").Result()
		return err == nil && !strings.Contains(replication, "master_link_status:down"), err
	})
}

// awaitAll waits until something is so for all nodes that answer.
func (s *Sharded) awaitAll(ctx context.Context, waiting string, so func(context.Context, *Server) (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, lookInterval, formTimeout, true, func(ctx context.Context) (bool, error) {
		for _, each := range s.Nodes {
			if met, err := so(ctx, each); err != nil || !met {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting %s: %w", waiting, err)
	}
	return nil
}

// Addresses are those of all nodes.
func (s *Sharded) Addresses() (all []string) {
	for _, each := range s.Nodes {
		all = append(all, each.Addr())
	}
	return all
}

// Owner returns the master that has a key, as one node says.
func (s *Sharded) Owner(ctx context.Context, by *Server, key string) (*Server, error) {
	address, err := s.OwnerAddress(ctx, by, key)
	if err != nil {
		return nil, err
	}
	for _, each := range s.Nodes {
		if each.Addr() == address {
			return each, nil
		}
	}
	return nil, fmt.Errorf("no node is at %s", address)
}

// NotOwner returns a master that does not have a key.
func (s *Sharded) NotOwner(ctx context.Context, key string) (*Server, error) {
	owner, err := s.Owner(ctx, s.Nodes[0], key)
	if owner == s.Nodes[0] {
		return s.Nodes[1], err
	}
	return s.Nodes[0], err
}

// OwnerAddress returns the address that a node announces of the master that has a key.
func (s *Sharded) OwnerAddress(ctx context.Context, by *Server, key string) (string, error) {
	slot, err := by.Client().ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return "", err
	}
	ranges, err := by.Client().ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS has each master among its replicas.
	if err != nil {
		return "", err
	}
	for _, each := range ranges {
		if int64(each.Start) <= slot && slot <= int64(each.End) {
			return each.Nodes[0].Addr, nil
		}
	}
	return "", fmt.Errorf("no node has slot %d", slot)
}

// Migration is a slot that is being moved.
type Migration struct {
	slot     int64
	from, to *Server
	fromID   string
	toID     string
}

// BeginMigration begins to move the slot of a key to another master. Keys that exist stay where they are.
func (s *Sharded) BeginMigration(ctx context.Context, key string, to *Server) (*Migration, error) {
	from, err := s.Owner(ctx, s.Nodes[0], key)
	if err != nil {
		return nil, err
	}
	m := &Migration{from: from, to: to}
	if m.slot, err = to.Client().ClusterKeySlot(ctx, key).Result(); err != nil {
		return nil, err
	}
	if m.fromID, err = from.Client().ClusterMyID(ctx).Result(); err != nil {
		return nil, err
	}
	if m.toID, err = to.Client().ClusterMyID(ctx).Result(); err != nil {
		return nil, err
	}
	return m, errors.Join(
		to.Client().Do(ctx, "cluster", "setslot", m.slot, "importing", m.fromID).Err(),
		from.Client().Do(ctx, "cluster", "setslot", m.slot, "migrating", m.toID).Err())
}

// MoveKeys moves the keys that exist.
func (m *Migration) MoveKeys(ctx context.Context) error {
	toHost, toPort, err := net.SplitHostPort(m.to.Addr())
	if err != nil {
		return err
	}
	for {
		keys, err := m.from.Client().ClusterGetKeysInSlot(ctx, int(m.slot), 100).Result()
		if err != nil || len(keys) == 0 {
			return err
		}
		for _, key := range keys {
			if err := m.from.Client().Migrate(ctx, toHost, toPort, key, 0, commandTimeout).Err(); err != nil {
				return err
			}
		}
	}
}

// End gives the slot to the other master.
func (m *Migration) End(ctx context.Context) error {
	return errors.Join(
		m.to.Client().Do(ctx, "cluster", "setslot", m.slot, "node", m.toID).Err(),
		m.from.Client().Do(ctx, "cluster", "setslot", m.slot, "node", m.toID).Err())
}

// Stop stops all nodes.
func (s *Sharded) Stop() (err error) {
	for _, each := range s.Nodes {
		err = errors.Join(err, each.Stop())
	}
	return err
}
