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
	// settleAfter is how long a Job is awaited in the cache before the API server is asked what became of it.
	settleAfter = 10 * time.Second
	// resolveAfter is how long a create without an answer can still be carried out: well over the minute that the API server gives to
	// any request. After that the API server is asked what came of it.
	resolveAfter = 90 * time.Second
)

// Gate holds what this process wrote and its cache has not shown yet. It is safe for concurrent use.
type Gate struct {
	cached     client.Reader
	live       client.Reader
	stores     *Stores
	namespaces []string

	takeover takeover

	mu     sync.Mutex
	owners map[types.UID]*owner
}

// owner is what is open for one ScaledJob.
type owner struct {
	awaited    []write
	unanswered []Unanswered
	ordinals   ordinals
}

// write is a Job that exists, or existed, and that the cache has yet to show.
type write struct {
	key     types.NamespacedName
	uid     types.UID
	version string
	since   time.Time
}

// Unanswered is a create that ended without an answer.
type Unanswered struct {
	// Ordinal is the Job's ordinal, and Job its name.
	Ordinal int64
	Job     types.NamespacedName
	// Since is when the create was sent last.
	Since time.Time
}

// NewGate makes a gate over the cache that Jobs are counted in. live reads from the API server itself, and stores are the stores behind
// the cache. namespaces are those that the cache watches; none means all.
func NewGate(cached, live client.Reader, stores *Stores, namespaces []string) *Gate {
	return &Gate{cached: cached, live: live, stores: stores, namespaces: namespaces, owners: map[types.UID]*owner{}}
}

// Ready says whether the cache shows every Job that is known to have been created for the owner. While it does not, the Jobs must not
// be counted. An error means that the API server had to be asked and did not answer. Only one caller at a time may ask and write for
// an owner, as the work queue sees to.
func (g *Gate) Ready(ctx context.Context, uid types.UID) (bool, error) {
	if done, err := g.tookOver(ctx); err != nil || !done {
		return false, err
	}
	for _, lost := range g.overdue(uid, time.Now()) {
		if _, err := g.Resolve(ctx, uid, lost); err != nil {
			return false, err
		}
	}
	awaited := g.awaited(uid)
	for i, pending := range awaited {
		settled, err := g.settled(ctx, pending)
		if err != nil || !settled {
			g.keep(uid, awaited[i:])
			return false, err
		}
	}
	g.keep(uid, nil)
	return true, nil
}

// Wrote notes that there is a Job of the owner with this ordinal, as the API server answered it.
func (g *Gate) Wrote(uid types.UID, ordinal int64, job *metav1.ObjectMeta) {
	g.mu.Lock()
	defer g.mu.Unlock()
	open := g.open(uid)
	open.drop(ordinal)
	open.ordinals.use(ordinal)
	open.awaited = append(open.awaited, write{
		key:     types.NamespacedName{Namespace: job.Namespace, Name: job.Name},
		uid:     job.UID,
		version: job.ResourceVersion,
		since:   time.Now(),
	})
}

// Lost notes that a create ended without an answer.
func (g *Gate) Lost(uid types.UID, lost Unanswered) {
	g.mu.Lock()
	defer g.mu.Unlock()
	open := g.open(uid)
	open.drop(lost.Ordinal)
	open.unanswered = append(open.unanswered, lost)
}

// Answered notes that the API server said what became of an ordinal, so that it is no longer in doubt.
func (g *Gate) Answered(uid types.UID, ordinal int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if open := g.owners[uid]; open != nil {
		open.drop(ordinal)
	}
}

// Resolve asks the API server which Job has the name of a create, and notes it: our own is awaited in the cache, the ordinal of a foreign one
// is skipped, and a name that nobody has is no longer in doubt.
func (g *Gate) Resolve(ctx context.Context, uid types.UID, of Unanswered) (taken bool, err error) {
	var job batchv1.Job
	err = g.live.Get(ctx, of.Job, &job)
	switch {
	case apierrors.IsNotFound(err):
		g.Answered(uid, of.Ordinal)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking at the existing Job %s: %w", of.Job.Name, err)
	case jobs.ControllerUID(&job) == uid:
		g.Wrote(uid, of.Ordinal, &job.ObjectMeta)
	default:
		ctrl.LoggerFrom(ctx).Info("a foreign Job has the name that was due, its number is skipped", "job", of.Job.Name)
		g.skip(uid, of.Ordinal)
	}
	return true, nil
}

// Saw notes which Jobs of the owner there are. It returns those creates without an answer whose Job is not among them, the lowest ordinal
// first: each may make a Job yet. That the Job is among them does not settle the create, since that may be an older one of the same name,
// long gone. Only an answer does.
func (g *Gate) Saw(uid types.UID, owned *jobs.Owned) []Unanswered {
	g.mu.Lock()
	defer g.mu.Unlock()
	open := g.open(uid)
	open.ordinals.saw(owned)
	if len(open.unanswered) == 0 {
		return nil
	}
	shown := map[int64]bool{}
	for job := range owned.All {
		ordinal, _ := jobs.Ordinal(&job.ObjectMeta)
		shown[ordinal] = true
	}
	hidden := slices.DeleteFunc(slices.Clone(open.unanswered), func(lost Unanswered) bool { return shown[lost.Ordinal] })
	slices.SortFunc(hidden, func(a, b Unanswered) int { return int(a.Ordinal - b.Ordinal) })
	return hidden
}

// Free are the ordinals of the owner's next count Jobs, and the floor that these Jobs are to tell. Saw must have been called before.
func (g *Gate) Free(uid types.UID, count int) (ordinals []int64, floor int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	open := g.open(uid)
	floor = open.ordinals.floor
	for _, lost := range open.unanswered {
		floor = min(floor, lost.Ordinal-1)
	}
	return open.ordinals.free(count, func(ordinal int64) bool {
		return slices.ContainsFunc(open.unanswered, func(lost Unanswered) bool { return lost.Ordinal == ordinal })
	}), floor
}

// Newest is the highest ordinal that any Job of the owner has had, or may have.
func (g *Gate) Newest(uid types.UID) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	open := g.owners[uid]
	if open == nil {
		return 0
	}
	newest := open.ordinals.highest
	for _, lost := range open.unanswered {
		newest = max(newest, lost.Ordinal)
	}
	return newest
}

// Forget drops what is known of an owner that is gone.
func (g *Gate) Forget(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.owners, uid)
}

// skip notes that an ordinal's name is taken, so that it is never due again.
func (g *Gate) skip(uid types.UID, ordinal int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	open := g.open(uid)
	open.drop(ordinal)
	open.ordinals.use(ordinal)
}

// overdue are the owner's creates without an answer that will not be carried out any more, if they were not yet.
func (g *Gate) overdue(uid types.UID, now time.Time) []Unanswered {
	g.mu.Lock()
	defer g.mu.Unlock()
	open := g.owners[uid]
	if open == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(open.unanswered), func(lost Unanswered) bool {
		return now.Sub(lost.Since) <= resolveAfter
	})
}

// settled says whether the cache shows the write, or need not show it any more.
func (g *Gate) settled(ctx context.Context, pending write) (bool, error) {
	if g.stores.reached(pending.version) {
		return true, nil
	}
	shown, err := holds(ctx, g.cached, pending)
	if err != nil || shown {
		return shown, err
	}
	if time.Since(pending.since) < settleAfter {
		return false, nil
	}
	exists, err := holds(ctx, g.live, pending)
	return !exists, err
}

// holds says whether the reader has the very Job that was written.
func holds(ctx context.Context, reader client.Reader, pending write) (bool, error) {
	var job batchv1.Job
	err := reader.Get(ctx, pending.key, &job)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for Job %s: %w", pending.key, err)
	}
	return job.UID == pending.uid, nil
}

func (g *Gate) awaited(uid types.UID) []write {
	g.mu.Lock()
	defer g.mu.Unlock()
	if open := g.owners[uid]; open != nil {
		return slices.Clone(open.awaited)
	}
	return nil
}

// keep leaves just these writes awaited.
func (g *Gate) keep(uid types.UID, rest []write) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if open := g.owners[uid]; open != nil {
		open.awaited = rest
	}
}

func (g *Gate) open(uid types.UID) *owner {
	if g.owners[uid] == nil {
		g.owners[uid] = &owner{}
	}
	return g.owners[uid]
}

func (o *owner) drop(ordinal int64) {
	o.unanswered = slices.DeleteFunc(o.unanswered, func(lost Unanswered) bool { return lost.Ordinal == ordinal })
}
