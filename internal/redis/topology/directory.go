// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// Route is where a key is.
type Route struct {
	// Owner is the server that has the key.
	Owner auth.Endpoint
	// Importing is the server to which the slot of the key is just being moved. If Owner does not have the key, this one
	// may, for commands after ASKING. It is empty if the slot is not being moved.
	Importing auth.Endpoint
}

// Directory is a pool that knows where keys are. It is safe for concurrent use.
type Directory struct {
	*connection.Pool

	shares *shares
	log    logr.Logger
	// fresh has a token while there is a watcher that does not run.
	fresh chan struct{}

	mu sync.Mutex
	// changed is called for each user of a deployment when a route may have changed.
	changed func(by connection.Owner)
	// users has which deployment each object uses.
	users    map[connection.Owner]*watcher
	watchers map[auth.Endpoint]*watcher
	// starting are the watchers that do not run yet.
	starting []*watcher
}

// New returns a Directory that watches nothing yet.
func New(pool *connection.Pool, log logr.Logger) *Directory {
	return &Directory{
		Pool: pool, shares: newShares(), log: log, fresh: make(chan struct{}, 1),
		changed: func(connection.Owner) { /* nobody listens */ },
		users:   map[connection.Owner]*watcher{}, watchers: map[auth.Endpoint]*watcher{},
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

// Claim is [connection.Pool.Claim] for a user of these keys, and watches the endpoint if it is a deployment. Each
// master of a Cluster that has one of the keys counts as a server.
func (d *Directory) Claim(tenant, name string, e auth.Endpoint, database int, keys ...string) error {
	by := connection.Owner{Tenant: tenant, Name: name}
	for {
		masters, known := d.mastersOf(by, e, keys)
		refused, err := d.claimMasters(by, e, database, masters)
		if err != nil || e.Mode == auth.ModeStandalone {
			d.leave(by)
			return err
		}
		if d.record(by, e, use{keys: keys, masters: masters, refused: refused}, known) {
			return refused
		}
	}
}

// record records how a user uses a deployment. It returns false if the routes are no longer those of the view, so that
// the user may need other masters.
func (d *Directory) record(by connection.Owner, e auth.Endpoint, is use, known *view) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.users[by]
	if w == nil || w.endpoint != e {
		d.leaveLocked(by)
		w = d.join(by, e)
	}
	if w.known.Load() != known {
		return false
	}
	w.count(w.uses[by], -1)
	w.count(is, 1)
	w.uses[by] = is
	return true
}

// join watches a deployment on behalf of a user. Call it with the lock held.
func (d *Directory) join(by connection.Owner, e auth.Endpoint) *watcher {
	w, ok := d.watchers[e]
	if !ok {
		w = newWatcher(d.Pool, d.shares, e, d.log.WithValues("endpoint", e.String()))
		w.moved = func(next *view) { d.move(w, next) }
		d.watchers[e] = w
		d.starting = append(d.starting, w)
		set(d.fresh)
	}
	d.users[by], w.uses[by] = w, use{}
	d.shares.join(w, by.Tenant)
	return w
}

// Release is [connection.Pool.Release]. A deployment that nobody uses any longer is not watched.
func (d *Directory) Release(tenant, name string) {
	d.leave(connection.Owner{Tenant: tenant, Name: name})
	d.Pool.Release(tenant, name)
}

func (d *Directory) leave(by connection.Owner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leaveLocked(by)
}

func (d *Directory) leaveLocked(by connection.Owner) {
	w := d.users[by]
	if w == nil {
		return
	}
	w.count(w.uses[by], -1)
	delete(w.uses, by)
	delete(d.users, by)
	if d.shares.leave(w, by.Tenant) {
		delete(d.watchers, w.endpoint)
		close(w.gone)
	}
}

// Route returns where a key is. Each key of a server that the user names is there, and does not move. The error is an
// [*failure.Error], which says why that is not known for a deployment.
func (d *Directory) Route(e auth.Endpoint, key string) (Route, error) {
	if e.Mode == auth.ModeStandalone {
		return Route{Owner: e}, nil
	}
	w := d.watcher(e)
	if w == nil {
		return Route{}, failure.Classify(fmt.Errorf("locating a key of %s: %w", e, failure.ErrBusy))
	}
	at, err := w.route(key)
	if err != nil {
		return Route{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return at, w.admits(at)
}

// Refresh polls the servers of a deployment, and returns when their responses were processed, after a quarter of a
// second, or when ctx is done.
func (d *Directory) Refresh(ctx context.Context, e auth.Endpoint) {
	if w := d.watcher(e); w != nil {
		w.refresh(ctx)
	}
}

// OnChange sets the function that is called for each user of a deployment when a route in it may have changed. It must
// not block, and must not use the Directory.
func (d *Directory) OnChange(call func(tenant, name string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = func(by connection.Owner) { call(by.Tenant, by.Name) }
}

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
