// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// firstAccess returns the access, and loads it if nobody has. One does while others wait, so a
// Secret is read once.
func (p *peer) firstAccess(ctx context.Context) (*auth.Access, error) {
	if known, err := p.inUse(); known != nil || err != nil {
		return known, err
	}
	if err := enter(ctx, p.loading); err != nil {
		return nil, err
	}
	defer func() { <-p.loading }()
	if known, err := p.inUse(); known != nil || err != nil {
		return known, err
	}
	loaded, cause := p.load(ctx)
	if cause != nil {
		return nil, cause
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.access = loaded
	return loaded, nil
}

// inUse returns the access, if there is one, unless the endpoint is down.
func (p *peer) inUse() (*auth.Access, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return nil, p.down
	}
	return p.access, nil
}

// reload is load within the time of a call.
func (p *peer) reload(ctx context.Context) (*auth.Access, *failure.Error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.load(ctx)
}

// load finds the access as it is now. Nothing tells its password from then on.
func (p *peer) load(ctx context.Context) (*auth.Access, *failure.Error) {
	loaded, cause := p.keyring.Load(ctx, p.endpoint)
	if cause == nil {
		p.passwords.Add(loaded.Password())
	}
	return loaded, cause
}

// lookAgain returns the access as it is now, or as it was if that is not known.
func (p *peer) lookAgain(ctx context.Context) (*auth.Access, *failure.Error) {
	p.mu.Lock()
	inUse := p.access
	p.mu.Unlock()
	if inUse != nil && !p.endpoint.NeedsSecrets() {
		return inUse, nil
	}
	loaded, cause := p.reload(ctx)
	switch {
	case cause == nil && inUse != nil && loaded.Same(inUse):
		return inUse, nil
	case cause == nil:
		return loaded, nil
	case inUse != nil && !auth.Withdrawn(cause):
		return inUse, nil
	default:
		p.withdraw()
		return nil, cause
	}
}

// use has all that comes use this access, and returns the clients of the one before.
func (p *peer) use(candidate *auth.Access) (old map[int]*redis.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.change(candidate)
}

// replace is use in place of a certain access. Where the endpoint went down meanwhile, it is for
// the prober to find out what can be used, and it may know better.
func (p *peer) replace(inUse, candidate *auth.Access) (old map[int]*redis.Client, replaced bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.access != inUse || p.down != nil {
		return nil, false
	}
	return p.change(candidate), true
}

// change is called with the lock held.
func (p *peer) change(candidate *auth.Access) (old map[int]*redis.Client) {
	if p.access == candidate {
		return nil
	}
	old, p.clients = p.clients, map[int]*redis.Client{}
	p.access, p.rejected = candidate, nil
	close(p.renewed)
	p.renewed = make(chan struct{})
	return old
}

// withdraw forgets the access, and ends what was made with it.
func (p *peer) withdraw() {
	closeAll(p.use(nil))
	p.closePubSubs()
}

// rememberedRefusals is how many accesses are remembered: the one in use and the one to be.
const rememberedRefusals = 2

// refusals are what a server refused last. To try it again and again could lock the user out.
type refusals []refusal

// refusal is when and for what a server refused an access.
type refusal struct {
	of    *auth.Access
	at    time.Time
	cause *failure.Error
}

// note remembers that an access was refused, if that is the cause.
func (r *refusals) note(of *auth.Access, cause *failure.Error) {
	if of == nil || cause.Reason != failure.ReasonAuthFailed {
		return
	}
	r.forget(of)
	*r = append(*r, refusal{of: of, at: time.Now(), cause: cause})
	*r = (*r)[max(0, len(*r)-rememberedRefusals):]
}

// forget notes that an access is not refused any more.
func (r *refusals) forget(of *auth.Access) {
	*r = slices.DeleteFunc(*r, func(last refusal) bool { return last.of.Same(of) })
}

// of is why an access was refused less than this time ago, and nil if it was not.
func (r refusals) of(access *auth.Access, within time.Duration) *failure.Error {
	for _, last := range r {
		if last.of.Same(access) && time.Since(last.at) < within {
			return last.cause
		}
	}
	return nil
}
