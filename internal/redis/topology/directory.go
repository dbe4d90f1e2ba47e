// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// Place is where a key is.
type Place struct {
	// Owner is the server that has the key.
	Owner auth.Endpoint
	// Importing is the server to which a slot of a Cluster is just being moved. If Owner does not have the key, this one
	// may, for commands after ASKING. It is empty if the slot is not being moved.
	Importing auth.Endpoint
}

// Directory knows where keys are. It is safe for concurrent use.
type Directory struct {
	pool   *connection.Pool
	shares *shares
	log    logr.Logger
	// changed has a token after a place may have changed. fresh has one while there is a follower that does not run.
	changed, fresh chan struct{}

	mu        sync.Mutex
	owners    map[owner]use
	followers map[auth.Endpoint]*follower
	// starting are the followers that do not run yet.
	starting []*follower
}

// owner is who uses a deployment: an object of a tenant.
type owner struct{ tenant, name string }

// New returns a Directory that follows nothing yet.
func New(pool *connection.Pool, log logr.Logger) *Directory {
	return &Directory{
		pool: pool, shares: newShares(), log: log, changed: make(chan struct{}, 1), fresh: make(chan struct{}, 1),
		owners: map[owner]use{}, followers: map[auth.Endpoint]*follower{},
	}
}

// NeedLeaderElection tells the manager that only the leader asks servers.
func (d *Directory) NeedLeaderElection() bool { return true }

// Start follows the deployments in use until ctx is done, and then returns nil. Call it once.
func (d *Directory) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		d.mu.Lock()
		starting := d.starting
		d.starting = nil
		d.mu.Unlock()
		for _, f := range starting {
			running.Go(func() { f.run(ctx) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.fresh:
		}
	}
}

// Claim is [connection.Pool.Claim] for an owner of these keys, and follows the endpoint if it is a deployment. Each master
// of a Cluster that has one of the keys counts as a server.
func (d *Directory) Claim(tenant, name string, e auth.Endpoint, database int, keys ...string) error {
	by := owner{tenant, name}
	masters := d.mastersOf(by, e, keys)
	refused, err := d.claimMasters(by, e, database, masters)
	if err != nil || e.Mode == auth.ModeStandalone {
		d.leave(by)
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owners[by].endpoint != e {
		d.leaveLocked(by)
		d.join(by, e)
	}
	f := d.followers[e]
	f.count(d.owners[by], -1)
	is := use{endpoint: e, keys: keys, masters: masters, refused: refused}
	f.count(is, 1)
	d.owners[by] = is
	return refused
}

// join follows a deployment on behalf of an owner. Call it with the lock held.
func (d *Directory) join(by owner, e auth.Endpoint) {
	f, ok := d.followers[e]
	if !ok {
		f = newFollower(d.pool, d.shares, e, d.changed, d.log.WithValues("endpoint", e.String()))
		f.moved = func(next *view) { d.claimAgain(f, next) }
		d.followers[e] = f
		d.starting = append(d.starting, f)
		set(d.fresh)
	}
	d.owners[by] = use{endpoint: e}
	f.owners[by] = struct{}{}
	d.shares.join(f, by.tenant)
}

// Release is [connection.Pool.Release]. A deployment that nobody uses any longer is not followed.
func (d *Directory) Release(tenant, name string) {
	d.leave(owner{tenant, name})
	d.pool.Release(tenant, name)
}

func (d *Directory) leave(by owner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leaveLocked(by)
}

func (d *Directory) leaveLocked(by owner) {
	is, uses := d.owners[by]
	if !uses {
		return
	}
	e, f := is.endpoint, d.followers[is.endpoint]
	f.count(is, -1)
	delete(f.owners, by)
	delete(d.owners, by)
	if d.shares.leave(f, by.tenant) {
		delete(d.followers, e)
		close(f.gone)
	}
}

// Rejected is [connection.Pool.Rejected].
func (d *Directory) Rejected(e auth.Endpoint) *failure.Error { return d.pool.Rejected(e) }

// CertificatesExpire is [connection.Pool.CertificatesExpire].
func (d *Directory) CertificatesExpire(e auth.Endpoint) time.Time {
	return d.pool.CertificatesExpire(e)
}

// Replica is [connection.Pool.Replica].
func (d *Directory) Replica(e auth.Endpoint) bool { return d.pool.Replica(e) }

// Locate returns where a key is. Each key of a server that the user names is there. The error is an [*failure.Error],
// which says why that is not known for a deployment.
func (d *Directory) Locate(e auth.Endpoint, key string) (Place, error) {
	if e.Mode == auth.ModeStandalone {
		return Place{Owner: e}, nil
	}
	f := d.follower(e)
	if f == nil {
		return Place{}, failure.Classify(fmt.Errorf("locating a key of %s: %w", e, failure.ErrBusy))
	}
	at, err := f.locate(key)
	if err != nil {
		return Place{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return at, f.admits(at)
}

// Refresh returns after servers of a deployment have said where keys are since it was called, or when ctx is done.
func (d *Directory) Refresh(ctx context.Context, e auth.Endpoint) {
	if f := d.follower(e); f != nil {
		f.refresh(ctx)
	}
}

// Changed has a token after a place may have changed. It is for one receiver.
func (d *Directory) Changed() <-chan struct{} { return d.changed }

// Version returns a number that grows when a place in a deployment may have changed.
func (d *Directory) Version(e auth.Endpoint) uint64 {
	if f := d.follower(e); f != nil {
		return f.version()
	}
	return 0
}

func (d *Directory) follower(e auth.Endpoint) *follower {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.followers[e]
}

// set puts a token in a channel, unless there is one.
func set(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
