// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
)

// deploymentTimeout is how long it may take altogether to read the queues of a deployment, whose keys may be on many
// servers. It is longer than one call, so that the first server that does not answer is marked down.
const deploymentTimeout = 2 * time.Second

// Directory knows where keys are: see package topology.
type Directory interface {
	// Route returns where a key of an endpoint is.
	Route(e auth.Endpoint, key string) (topology.Route, error)
	// Refresh returns when this may be known better.
	Refresh(ctx context.Context, e auth.Endpoint)
	// About returns the error of a read from a server of an endpoint, nil if there is none. If the server cannot be used
	// and the user does not name it, the error says so.
	About(e, server auth.Endpoint, err error) error
}

// slowDeployment is the error for a deployment whose servers do not answer in time, though each answers.
func slowDeployment() error {
	return &failure.Error{
		Reason:  failure.ReasonUnreachable,
		Message: "Reading the keys from the servers of the Redis deployment takes too long. Check the servers for slow commands and overload.",
		Err:     errors.New("reading from several servers takes too long"),
	}
}

// redirected reports whether an error says that a key has to be read from another server.
func redirected(err error) bool {
	return failure.IsRedirection(err) || errors.Is(err, failure.ErrNotMaster)
}

// moving is the error for keys that were elsewhere again.
func moving(err error) error {
	if errors.Is(err, failure.ErrNotMaster) {
		return err
	}
	return &failure.Error{
		Reason:  failure.ReasonUnreachable,
		Message: "The Redis Cluster is moving the slot of a key. The operator tries again; see that the migration of the slot ends.",
		Err:     err,
	}
}

// part has the queues that are read at the same moment: those of one slot of a Cluster, and otherwise all.
type part struct {
	topology.Route
	Source
	slot uint16
	// at has the indexes of the queues in the whole source.
	at []int
}

// observeAll reads the queues of a source where they are.
func (r *Reader) observeAll(ctx context.Context, source Source) ([]Count, error) {
	parts, err := r.split(source)
	if err != nil {
		return nil, fmt.Errorf("locating queues: %w", err)
	}
	counts := make([]Count, len(source.Queues))
	for _, each := range parts {
		found, err := r.observePart(ctx, each)
		if err == nil {
			err = r.confirm(each)
		}
		if err != nil {
			return nil, err
		}
		for i, at := range each.at {
			counts[at] = found[i]
		}
	}
	return counts, nil
}

// confirm returns an error unless a part, which was read, is still known to be where it was read: the operator may have
// been stopped in between, and another server may have become the master.
func (r *Reader) confirm(is part) error {
	at, err := r.directory.Route(is.Endpoint, is.Queues[0].Key)
	switch {
	case err != nil:
		return fmt.Errorf("confirming where queues are: %w", err)
	case at.Owner != is.Owner:
		return failure.NotMaster()
	}
	return nil
}

// split splits a source into parts, in the order in which they are to be read: those with only queues in progress
// first, and those without any last. A message that is taken meanwhile may then count nowhere. It may count twice only
// if a worker gives it back meanwhile, or if it moves between two slots that have both kinds of queues. It asks for one
// route for each slot: when a master is just being replaced, a second one may lead to another server.
func (r *Reader) split(source Source) (parts []part, err error) {
	for i, queue := range source.Queues {
		slot := source.slot(queue.Key)
		at := slices.IndexFunc(parts, func(is part) bool { return is.slot == slot })
		if at < 0 {
			route, err := r.directory.Route(source.Endpoint, queue.Key)
			if err != nil {
				return nil, err
			}
			at, parts = len(parts), append(parts, part{Route: route, Source: source, slot: slot})
			parts[at].Queues = nil
		}
		parts[at].Queues = append(parts[at].Queues, queue)
		parts[at].at = append(parts[at].at, i)
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.turn(), b.turn()) })
	return parts, nil
}

// slot returns the slot of a key of a Cluster, and 0 for all other keys.
func (s *Source) slot(key string) uint16 {
	if s.Endpoint.Mode == auth.ModeCluster {
		return topology.SlotOf(key)
	}
	return 0
}

// turn says when a part is read: the lower, the sooner.
func (p *part) turn() int {
	inProgress := func(is Queue) bool { return is.InProgress }
	waiting := func(is Queue) bool { return !is.InProgress }
	switch {
	case !slices.ContainsFunc(p.Queues, waiting):
		return 0
	case slices.ContainsFunc(p.Queues, inProgress):
		return 1
	}
	return 2
}

// observePart reads a part. While its slot is being moved, the keys that its owner does not have any longer, or never
// had, are read from the server that it is moved to. If the owner answers MOVED, the move has ended, or the owner was
// replaced: then it is not known where the keys are.
func (r *Reader) observePart(ctx context.Context, is part) ([]Count, error) {
	counts, err := r.observeAt(ctx, is.Owner, false, is.Source)
	if is.Importing == (auth.Endpoint{}) || !failure.IsAsk(err) {
		return counts, err
	}
	counts = make([]Count, len(is.Queues))
	for _, i := range readingOrder(is.Queues) {
		one := is.Source
		one.Queues = is.Queues[i : i+1]
		found, err := r.observeAt(ctx, is.Owner, false, one)
		if failure.IsAsk(err) {
			found, err = r.observeAt(ctx, is.Importing, true, one)
		}
		if err != nil {
			return nil, err
		}
		counts[i] = found[0]
	}
	return counts, nil
}

// observeAt reads queues of one server. asking is true if their slot is being moved to it. The error names the server
// that it is about, unless the time for the whole deployment is over.
func (r *Reader) observeAt(ctx context.Context, at auth.Endpoint, asking bool, source Source) ([]Count, error) {
	counts, err := r.readFrom(ctx, server{r.pool.ConnFor(source.Tenant, at, source.Database), asking}, source)
	if ctx.Err() != nil {
		return counts, err
	}
	return counts, r.directory.About(source.Endpoint, at, err)
}

// server is a server where keys are read.
type server struct {
	conn *connection.Conn
	// asking is true if the slot of the keys is being moved to the server.
	asking bool
}

// read sends commands in one round trip and returns their replies.
func (s server) read(ctx context.Context, client connection.Client, commands [][]any) (replies []any, err error) {
	if !s.asking {
		return client.Read(ctx, commands...)
	}
	var sent [][]any
	for _, each := range commands {
		sent = append(sent, []any{"asking"}, each)
	}
	all, err := client.Read(ctx, sent...)
	for pair := range slices.Chunk(all, 2) {
		if refusal, refused := pair[0].(resp.Error); refused {
			return nil, refusal
		}
		replies = append(replies, pair[1])
	}
	return replies, err
}
