// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// readsAtOnce is of how many endpoints the Secrets are read again at the same time. That are
	// fewer than the keyring reads, so that it has room for those who need theirs.
	readsAtOnce = 4
	// looks is in how many parts the time between two looks at the Secrets of an endpoint is cut,
	// so that not all are read at once.
	looks = 10
	// rereadJitter delays each look by up to this part of that time.
	rereadJitter = 0.2
)

// followSecrets looks every now and then whether the Secrets of endpoints hold something else,
// until ctx is done.
func (p *Pool) followSecrets(ctx context.Context) {
	ticker := time.NewTicker(p.timing.reread / looks)
	defer ticker.Stop()
	var renewals sync.WaitGroup
	defer renewals.Wait()
	reading := make(chan struct{}, readsAtOnce)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, due := range p.due() {
			renewals.Go(func() {
				defer due.renewing.Store(false)
				p.renew(ctx, due, reading)
			})
		}
	}
}

// due are the peers whose Secrets are to be read now, but for those of which they still are. It
// notes when each is the next time. A peer that was made since the last look has just read its own.
func (p *Pool) due() []*peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*peer
	now := time.Now()
	for endpoint, candidate := range p.peers {
		if !endpoint.NeedsSecrets() || now.Before(candidate.rereadAt) {
			continue
		}
		if !candidate.rereadAt.IsZero() && !candidate.renewing.Swap(true) {
			found = append(found, candidate)
		}
		candidate.rereadAt = now.Add(p.timing.reread + time.Duration(float64(p.timing.reread)*rereadJitter*rand.Float64()))
	}
	return found
}

// renew has a peer used with what its Secrets hold now, once the server has let somebody in with
// that. Until then it is used as before. Reading has room for those who read, and is left before
// the server is asked: that one may be slow.
func (p *Pool) renew(ctx context.Context, candidate *peer, reading chan struct{}) {
	if enter(ctx, reading) != nil {
		return
	}
	inUse, _ := candidate.inUse()
	if inUse == nil { // It is not used yet, or its prober does the same.
		<-reading
		return
	}
	loaded, cause := candidate.reload(ctx)
	<-reading
	switch {
	case cause != nil && auth.Withdrawn(cause):
		candidate.markDown(inUse, cause)
		candidate.withdraw()
	case cause != nil:
		p.log.V(1).Info("The Secrets for a Redis server could not be read again",
			"endpoint", candidate.endpoint.String(), "cause", cause.Cause())
	case loaded.Same(inUse):
		candidate.reject(nil, nil)
	default:
		p.handOver(ctx, candidate, inUse, loaded)
	}
}

// handOver has a peer used with another access, if the server lets somebody in with that.
func (p *Pool) handOver(ctx context.Context, candidate *peer, inUse, loaded *auth.Access) {
	if cause := candidate.check(ctx, loaded, p.timing.refusedAuth); cause != nil {
		if candidate.reject(loaded, cause) {
			p.log.Info("Redis cannot be used with what the Secrets hold now. What they held before stays in use.",
				"endpoint", candidate.endpoint.String(), "cause", cause.Error())
		}
		return
	}
	retired, replaced := candidate.replace(inUse, loaded)
	if !replaced {
		return
	}
	p.log.Info("Redis is used with what the Secrets hold now", "endpoint", candidate.endpoint.String())
	select { // Calls under way end.
	case <-ctx.Done():
	case <-time.After(callTimeout):
	}
	closeAll(retired)
}

// rejection is of what cannot be used now, and why.
type rejection struct {
	of    *auth.Access
	cause *failure.Error
}

// reject notes that an access cannot be used now, and reports whether that is news. There is none
// if it is nil.
func (p *peer) reject(of *auth.Access, cause *failure.Error) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of == nil {
		p.rejected = nil
		return false
	}
	news = p.rejected == nil || !of.Same(p.rejected.of)
	p.rejected = &rejection{of, cause}
	return news
}

// Rejected is why the server does not let anybody in with what the Secrets of an endpoint hold now,
// while it is used with what they held before. It is nil if that is not so, or not known.
func (p *Pool) Rejected(e auth.Endpoint) *failure.Error {
	if e.Namespace == "" { // It has none.
		return nil
	}
	p.mu.Lock()
	used := p.peers[e]
	p.mu.Unlock()
	if used == nil {
		return nil
	}
	used.mu.Lock()
	defer used.mu.Unlock()
	if used.rejected == nil || used.rejected.cause.Reason == failure.ReasonUnreachable {
		return nil
	}
	return used.rejected.cause
}

// succeeds reports whether a connection for subscriptions is to be followed by one with other
// credentials now. The channel is closed when that may have changed.
func (p *peer) succeeds(of *PubSub) (due bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.down != nil:
		return false, p.up
	case p.access == nil || p.access == of.access:
		return false, p.renewed
	default:
		return true, nil
	}
}
