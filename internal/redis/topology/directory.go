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
	// changed has a token after a route may have changed. fresh has one while there is a watcher that does not run.
	changed, fresh chan struct{}

	mu       sync.Mutex
	users    map[user]use
	watchers map[auth.Endpoint]*watcher
	// starting are the watchers that do not run yet.
	starting []*watcher
}

// user is an object of a tenant that uses a deployment.
type user struct{ tenant, name string }

// New returns a Directory that watches nothing yet.
func New(pool *connection.Pool, log logr.Logger) *Directory {
	return &Directory{
		pool: pool, shares: newShares(), log: log, changed: make(chan struct{}, 1), fresh: make(chan struct{}, 1),
		users: map[user]use{}, watchers: map[auth.Endpoint]*watcher{},
	}
}

// NeedLeaderElection says that only the leader polls servers.
func (d *Directory) NeedLeaderElection() bool { return true }

// Start watches the deployments in use until ctx is done, and then returns nil. Call it once.
func (d *Directory) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		d.mu.Lock()
		starting := d.starting
		d.starting = nil
		d.mu.Unlock()
		for _, w := range starting {
			running.Go(func() { w.run(ctx) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.fresh:
		}
	}
}

// Claim is [connection.Pool.Claim] for a user of these keys, and watches the endpoint if it is a deployment. Each master
// of a Cluster that has one of the keys counts as a server.
func (d *Directory) Claim(tenant, name string, e auth.Endpoint, database int, keys ...string) error {
	by := user{tenant, name}
	for {
		masters, known := d.mastersOf(by, e, keys)
		refused, err := d.claimMasters(by, e, database, masters)
		if err != nil || e.Mode == auth.ModeStandalone {
			d.leave(by)
			return err
		}
		if d.record(by, use{endpoint: e, keys: keys, masters: masters, refused: refused}, known) {
			return refused
		}
	}
}

// record records how a user uses a deployment. It returns false if the routes are no longer those of the view, so that the
// user may need other masters.
func (d *Directory) record(by user, is use, known *view) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users[by].endpoint != is.endpoint {
		d.leaveLocked(by)
		d.join(by, is.endpoint)
	}
	w := d.watchers[is.endpoint]
	if is.endpoint.Mode == auth.ModeCluster && w.known.Load() != known {
		return false
	}
	w.count(d.users[by], -1)
	w.count(is, 1)
	d.users[by] = is
	return true
}

// join watches a deployment on behalf of a user. Call it with the lock held.
func (d *Directory) join(by user, e auth.Endpoint) {
	w, ok := d.watchers[e]
	if !ok {
		w = newWatcher(d.pool, d.shares, e, d.changed, d.log.WithValues("endpoint", e.String()))
		w.moved = func(next *view) { d.claimAgain(w, next) }
		d.watchers[e] = w
		d.starting = append(d.starting, w)
		set(d.fresh)
	}
	d.users[by] = use{endpoint: e}
	w.claimedBy[by] = struct{}{}
	d.shares.join(w, by.tenant)
}

// Release is [connection.Pool.Release]. A deployment that nobody uses any longer is not watched.
func (d *Directory) Release(tenant, name string) {
	d.leave(user{tenant, name})
	d.pool.Release(tenant, name)
}

func (d *Directory) leave(by user) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leaveLocked(by)
}

func (d *Directory) leaveLocked(by user) {
	is, uses := d.users[by]
	if !uses {
		return
	}
	e, w := is.endpoint, d.watchers[is.endpoint]
	w.count(is, -1)
	delete(w.claimedBy, by)
	delete(d.users, by)
	if d.shares.leave(w, by.tenant) {
		delete(d.watchers, e)
		close(w.gone)
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
	w := d.watcher(e)
	if w == nil {
		return Place{}, failure.Classify(fmt.Errorf("locating a key of %s: %w", e, failure.ErrBusy))
	}
	at, err := w.locate(key)
	if err != nil {
		return Place{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return at, w.admits(at)
}

// Refresh polls the servers of a deployment, and returns when their responses were processed, after a quarter of a second,
// or when ctx is done.
func (d *Directory) Refresh(ctx context.Context, e auth.Endpoint) {
	if w := d.watcher(e); w != nil {
		w.refresh(ctx)
	}
}

// Changed has a token after a route may have changed. It is for one receiver.
func (d *Directory) Changed() <-chan struct{} { return d.changed }

// Version returns a number that grows when a route in a deployment may have changed.
func (d *Directory) Version(e auth.Endpoint) uint64 {
	if w := d.watcher(e); w != nil {
		return w.version()
	}
	return 0
}

func (d *Directory) watcher(e auth.Endpoint) *watcher {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.watchers[e]
}

// set puts a token in a channel, unless there is one.
func set(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
