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
	// Locate returns where a key of an endpoint is.
	Locate(e auth.Endpoint, key string) (topology.Place, error)
	// Refresh returns when this may be known better.
	Refresh(ctx context.Context, e auth.Endpoint)
	// About returns the error of a read from a server of an endpoint, nil if there is none. If the server cannot be used
	// and the user does not name it, the error says so.
	About(e, server auth.Endpoint, err error) error
}

// observeDeployment is Observe for a deployment. A reply may show that a key is elsewhere by now. Then the keys are read
// once more, where they are.
func (r *Reader) observeDeployment(ctx context.Context, source Source) ([]Count, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, deploymentTimeout, slowDeployment())
	defer cancel()
	counts, err := r.observeAll(ctx, source)
	if !misplaced(err) {
		return counts, err
	}
	if err := r.pool.Wait(source.Tenant, func() { r.directory.Refresh(ctx, source.Endpoint) }); err != nil {
		return nil, err
	}
	if counts, err = r.observeAll(ctx, source); misplaced(err) {
		return nil, moving(err)
	}
	return counts, err
}

// slowDeployment is the error for a deployment whose servers do not answer in time, though each answers.
func slowDeployment() error {
	return &failure.Error{
		Reason:  failure.ReasonUnreachable,
		Message: "Reading the keys from the servers of the Redis deployment takes too long. Check the servers for slow commands and overload.",
		Err:     errors.New("reading from several servers takes too long"),
	}
}

// misplaced reports whether an error says that a key has to be read from another server.
func misplaced(err error) bool {
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

// part has the queues of one slot of a Cluster, or all queues with sentinels.
type part struct {
	place topology.Place
	Source
	// at has the indexes of the queues in the whole source.
	at []int
}

// observeAll reads the queues of a deployment: those of each slot at the same moment.
func (r *Reader) observeAll(ctx context.Context, source Source) ([]Count, error) {
	parts, err := r.split(source)
	if err != nil {
		return nil, fmt.Errorf("locating queues: %w", err)
	}
	counts := make([]Count, len(source.Queues))
	for _, each := range parts {
		found, err := r.observePart(ctx, each)
		if err != nil {
			return nil, err
		}
		for i, at := range each.at {
			counts[at] = found[i]
		}
	}
	return counts, nil
}

// split splits a source into parts that can be read at the same moment, in the order in which they are to be read: those
// with only queues in progress first, and those without any last. A message that is taken meanwhile may then count nowhere.
// It may count twice only if a worker gives it back meanwhile, or if it moves between two slots that have both kinds of
// queues.
func (r *Reader) split(source Source) (parts []part, err error) {
	slot := func(key string) uint16 {
		if source.Endpoint.Mode == auth.ModeCluster {
			return topology.SlotOf(key)
		}
		return 0
	}
	index := map[uint16]int{}
	for i, queue := range source.Queues {
		at, known := index[slot(queue.Key)]
		if !known {
			is := part{Source: source}
			if is.place, err = r.directory.Locate(source.Endpoint, queue.Key); err != nil {
				return nil, err
			}
			is.Queues = nil
			at, parts = len(parts), append(parts, is)
			index[slot(queue.Key)] = at
		}
		parts[at].Queues = append(parts[at].Queues, queue)
		parts[at].at = append(parts[at].at, i)
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.turn(), b.turn()) })
	return parts, nil
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
	counts, err := r.observeOwner(ctx, is.place.Owner, is.Source)
	if is.place.Importing == (auth.Endpoint{}) || !failure.IsAsk(err) {
		return counts, err
	}
	counts = make([]Count, len(is.Queues))
	for _, i := range readingOrder(is.Queues) {
		queue, one := is.Queues[i], is.Source
		one.Queues = []Queue{queue}
		found, err := r.observeOwner(ctx, is.place.Owner, one)
		if failure.IsAsk(err) {
			found, err = r.observeImporting(ctx, is.place.Importing, one)
			err = r.about(ctx, one.Endpoint, is.place.Importing, err)
		}
		if err != nil {
			return nil, err
		}
		counts[i] = found[0]
	}
	return counts, nil
}

// observeOwner reads queues of one server of a deployment.
func (r *Reader) observeOwner(ctx context.Context, server auth.Endpoint, source Source) ([]Count, error) {
	counts, err := r.observeAt(ctx, server, source)
	return counts, r.about(ctx, source.Endpoint, server, err)
}

// about has an error name the server that it is about, unless the time for the whole deployment is over.
func (r *Reader) about(ctx context.Context, deployment, server auth.Endpoint, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return r.directory.About(deployment, server, err)
}

// observeImporting reads one queue from the server that its slot is being moved to.
func (r *Reader) observeImporting(ctx context.Context, from auth.Endpoint, source Source) ([]Count, error) {
	asked := newInquiry(source.Queues, r.now())
	var commands [][]any
	for _, command := range asked.commands {
		commands = append(commands, []any{"asking"}, command)
	}
	var found []reading
	conn := r.pool.ConnFor(source.Tenant, from, source.Database)
	err := conn.Do(ctx, func(ctx context.Context, client connection.Client) error {
		replies, err := client.Read(ctx, commands...)
		if err != nil {
			return err
		}
		var read []any
		for pair := range slices.Chunk(replies, 2) {
			if refusal, refused := pair[0].(resp.Error); refused {
				return refusal
			}
			read = append(read, pair[1])
		}
		found, err = asked.readings(read)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading a queue whose slot is being moved: %w", err)
	}
	is, err := settle(ctx, entries{conn: conn, key: source.Queues[0].Key, asking: true}, found[0], source.CountLimit)
	return []Count{is}, err
}
