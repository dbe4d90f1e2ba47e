// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/internal/jobs"
)

const (
	// settleAfter is how long the gate waits for a Job to appear in the cache before it asks the API server whether the
	// Job still exists.
	settleAfter = 10 * time.Second
	// resolveAfter is how long after it was sent a create without an answer may still be carried out. The API server
	// ends requests after one minute. After that time the gate asks the API server whether the Job exists.
	resolveAfter = 90 * time.Second
)

// Gate tracks the creates of this process that its cache does not show yet. It is safe for concurrent use.
type Gate struct {
	cached     client.Reader
	live       client.Reader
	stores     *Stores
	namespaces []string

	mu     sync.Mutex
	owners map[types.UID]*owner
}

// owner is the state of one ScaledJob.
type owner struct {
	awaited    []write
	unanswered []Unanswered
	ordinals   ordinals
}

// write is a Job that exists or existed, and that the cache does not show yet.
type write struct {
	key     types.NamespacedName
	uid     types.UID
	version string
	since   time.Time
}

// Unanswered is a create that ended without an answer.
type Unanswered struct {
	// Ordinal is the ordinal of the Job, and Job its namespace and name.
	Ordinal int64
	Job     types.NamespacedName
	// Since is when the create was last sent.
	Since time.Time
}

// NewGate returns a Gate for the cache in which Jobs are counted. live reads from the API server, and stores are the
// stores behind the cache. namespaces are the namespaces that the cache watches; none means all.
func NewGate(cached, live client.Reader, stores *Stores, namespaces []string) *Gate {
	return &Gate{cached: cached, live: live, stores: stores, namespaces: namespaces, owners: map[types.UID]*owner{}}
}

// Synced reports whether the cache shows every Job that is known to have been created for the owner. While it is false,
// the Jobs must not be counted. Synced returns an error if it has to ask the API server and that fails. Calls for the
// same owner must not be concurrent with each other or with its creates; the work queue ensures that. Before the first
// call, [Gate.Takeover] must have synced.
func (g *Gate) Synced(ctx context.Context, uid types.UID) (bool, error) {
	for _, lost := range g.expired(uid, time.Now()) {
		if _, err := g.resolve(ctx, uid, lost); err != nil {
			return false, err
		}
		g.settle(uid, lost.Ordinal)
	}
	awaited := g.awaited(uid)
	for i, pending := range awaited {
		settled, err := g.settled(ctx, pending)
		if err != nil || !settled {
			g.setAwaited(uid, awaited[i:])
			return false, err
		}
	}
	g.setAwaited(uid, nil)
	return true, nil
}

// recordCreate records that a Job of the owner with this ordinal exists, as the API server returned it. An earlier
// create of it that got no answer stays in doubt: if the Job is deleted, the name is free, and that create may still be
// carried out.
func (g *Gate) recordCreate(uid types.UID, ordinal int64, job *metav1.ObjectMeta) {
	g.mu.Lock()
	defer g.mu.Unlock()
	state := g.getOrCreate(uid)
	state.ordinals.use(ordinal)
	state.awaited = append(state.awaited, writeOf(job))
}

// writeOf returns the write of a Job that the API server returned now.
func writeOf(job *metav1.ObjectMeta) write {
	return write{
		key:     types.NamespacedName{Namespace: job.Namespace, Name: job.Name},
		uid:     job.UID,
		version: job.ResourceVersion,
		since:   time.Now(),
	}
}

// Lost records that a create ended without an answer.
func (g *Gate) Lost(uid types.UID, lost Unanswered) {
	g.mu.Lock()
	defer g.mu.Unlock()
	state := g.getOrCreate(uid)
	state.drop(lost.Ordinal)
	state.unanswered = append(state.unanswered, lost)
}

// settle records that no create of this ordinal can be carried out any more.
func (g *Gate) settle(uid types.UID, ordinal int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if state := g.owners[uid]; state != nil {
		state.drop(ordinal)
	}
}

// resolve asks the API server which Job has the name of a create, and records the result: the gate waits until the
// cache shows an owned Job, and skips the ordinal if the Job belongs to another owner.
func (g *Gate) resolve(ctx context.Context, uid types.UID, of Unanswered) (taken bool, err error) {
	var job batchv1.Job
	err = g.live.Get(ctx, of.Job, &job)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the existing Job %s: %w", of.Job.Name, err)
	case jobs.ControllerUID(&job) == uid:
		g.recordCreate(uid, of.Ordinal, &job.ObjectMeta)
	default:
		ctrl.LoggerFrom(ctx).Info("a Job of another owner has the name of the next Job; skipping its ordinal",
			"job", of.Job.Name)
		g.skip(uid, of.Ordinal)
	}
	return true, nil
}

// Observe records the owned Jobs. It returns the creates without an answer that have no Job among them, lowest ordinal
// first: each may still create a Job. A Job with the ordinal keeps its name from being used again, but only until it is
// deleted, and an answer to another create of the same name says nothing about the first one. The API server may
// execute a create until resolveAfter has passed.
func (g *Gate) Observe(uid types.UID, owned *jobs.Owned) []Unanswered {
	g.mu.Lock()
	defer g.mu.Unlock()
	state := g.getOrCreate(uid)
	state.ordinals.saw(owned)
	if len(state.unanswered) == 0 {
		return nil
	}
	shown := map[int64]bool{}
	for job := range owned.All {
		ordinal, _ := jobs.Ordinal(&job.ObjectMeta)
		shown[ordinal] = true
	}
	hidden := slices.DeleteFunc(slices.Clone(state.unanswered), func(lost Unanswered) bool {
		return shown[lost.Ordinal]
	})
	slices.SortFunc(hidden, func(a, b Unanswered) int { return int(a.Ordinal - b.Ordinal) })
	return hidden
}

// Free returns the ordinals of the next count Jobs of the owner, and the floor to store in these Jobs. Observe must
// have been called before.
func (g *Gate) Free(uid types.UID, count int) (ordinals []int64, floor int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	state := g.getOrCreate(uid)
	floor = state.ordinals.floor
	for _, lost := range state.unanswered {
		floor = min(floor, lost.Ordinal-1)
	}
	return state.ordinals.free(count, state.isUnanswered), floor
}

// InDoubt reports whether a create of this ordinal may still be carried out. A finished Job with the ordinal prevents
// that, and must not be deleted.
func (g *Gate) InDoubt(uid types.UID, ordinal int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	state := g.owners[uid]
	return state != nil && state.isUnanswered(ordinal)
}

// Newest returns the highest ordinal that any Job of the owner has had or may have.
func (g *Gate) Newest(uid types.UID) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if state := g.owners[uid]; state != nil {
		return state.newest()
	}
	return 0
}

// Forget removes the state of a deleted owner.
func (g *Gate) Forget(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.owners, uid)
}

// skip records that the name of an ordinal is taken, so that the ordinal is not used again.
func (g *Gate) skip(uid types.UID, ordinal int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	state := g.getOrCreate(uid)
	state.drop(ordinal)
	state.ordinals.use(ordinal)
}

// expired returns the owner's creates without an answer that the API server can no longer carry out.
func (g *Gate) expired(uid types.UID, now time.Time) []Unanswered {
	g.mu.Lock()
	defer g.mu.Unlock()
	state := g.owners[uid]
	if state == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(state.unanswered), func(lost Unanswered) bool {
		return now.Sub(lost.Since) <= resolveAfter
	})
}

// settled reports whether the cache shows the write, or no longer has to because the Job was deleted.
func (g *Gate) settled(ctx context.Context, pending write) (bool, error) {
	shown, err := g.shows(ctx, pending)
	if err != nil || shown {
		return shown, err
	}
	if time.Since(pending.since) < settleAfter {
		return false, nil
	}
	exists, err := holds(ctx, g.live, pending)
	return !exists, err
}

// shows reports whether the cache shows the write, or did until the Job was deleted.
func (g *Gate) shows(ctx context.Context, pending write) (bool, error) {
	if g.stores.reached(pending.version) {
		return true, nil
	}
	return holds(ctx, g.cached, pending)
}

// holds reports whether the reader returns this Job, and not another one of the same name.
func holds(ctx context.Context, reader client.Reader, pending write) (bool, error) {
	var job batchv1.Job
	err := reader.Get(ctx, pending.key, &job)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Job %s: %w", pending.key, err)
	}
	return job.UID == pending.uid, nil
}

func (g *Gate) awaited(uid types.UID) []write {
	g.mu.Lock()
	defer g.mu.Unlock()
	if state := g.owners[uid]; state != nil {
		return slices.Clone(state.awaited)
	}
	return nil
}

// setAwaited replaces the writes that the gate waits for.
func (g *Gate) setAwaited(uid types.UID, rest []write) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if state := g.owners[uid]; state != nil {
		state.awaited = rest
	}
}

func (g *Gate) getOrCreate(uid types.UID) *owner {
	if g.owners[uid] == nil {
		g.owners[uid] = &owner{}
	}
	return g.owners[uid]
}

func (o *owner) drop(ordinal int64) {
	o.unanswered = slices.DeleteFunc(o.unanswered, func(lost Unanswered) bool { return lost.Ordinal == ordinal })
}

func (o *owner) isUnanswered(ordinal int64) bool {
	return slices.ContainsFunc(o.unanswered, func(lost Unanswered) bool { return lost.Ordinal == ordinal })
}

// newest returns the highest ordinal that any Job has had or may have.
func (o *owner) newest() int64 {
	newest := o.ordinals.highest
	for _, lost := range o.unanswered {
		newest = max(newest, lost.Ordinal)
	}
	return newest
}
