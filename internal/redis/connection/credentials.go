// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// credentials are what is known about the credentials for one server besides those in use, which are with its [health].
// They are safe for concurrent use.
type credentials struct {
	resolver *auth.Resolver
	// loading is held while credentials are loaded for the first time.
	loading chan struct{}
	// renewing is set while somebody looks whether the Secrets hold something else.
	renewing atomic.Bool

	mu      sync.Mutex
	refused refusedLogins
	// rejected is what the Secrets hold that did not replace what is in use.
	rejected *rejection
}

// rejection is of what cannot be used now, and why. It counts for as long as the credentials that stayed in use instead
// do, so nobody has to withdraw it when they change.
type rejection struct {
	instead, of *auth.Credentials
	cause       *failure.Error
}

// reject notes that credentials cannot be used now instead of those in use, and reports whether that is news.
func (c *credentials) reject(inUse, of *auth.Credentials, cause *failure.Error) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news = c.rejected == nil || c.rejected.instead != inUse || !of.Same(c.rejected.of)
	c.rejected = &rejection{instead: inUse, of: of, cause: cause}
	return news
}

// settle notes that the Secrets hold what is in use.
func (c *credentials) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rejected = nil
}

// rejection is why what the Secrets hold does not replace what is in use. It is nil if that is not so, or not known.
func (c *credentials) rejection(inUse *auth.Credentials) *failure.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rejected == nil || c.rejected.instead != inUse || c.rejected.cause.Reason == failure.ReasonUnreachable {
		return nil
	}
	return c.rejected.cause
}

// lapse notes why a server can no longer be used with credentials. If it refuses them, it knows others than before, and
// may accept what it refused then.
func (c *credentials) lapse(of *auth.Credentials, cause *failure.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cause.Reason == failure.ReasonAuthFailed {
		c.refused = nil
	}
	c.refused.note(of, cause)
}

// refuse notes why a server cannot be used with credentials.
func (c *credentials) refuse(of *auth.Credentials, cause *failure.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused.note(of, cause)
}

// accept notes that the server lets somebody in with credentials.
func (c *credentials) accept(of *auth.Credentials) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused.forget(of)
}

// refusal is why the server refused credentials less than this time ago, and nil if it did not.
func (c *credentials) refusal(of *auth.Credentials, within time.Duration) *failure.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused.of(of, within)
}

// rememberedLogins is how many credentials are remembered: those in use and those to be.
const rememberedLogins = 2

// refusedLogins are what a server refused last. To try it again and again could lock the user out.
type refusedLogins []refusedLogin

// refusedLogin is when and why a server refused credentials.
type refusedLogin struct {
	of    *auth.Credentials
	at    time.Time
	cause *failure.Error
}

// note remembers that credentials were refused, if that is the cause.
func (r *refusedLogins) note(of *auth.Credentials, cause *failure.Error) {
	if of == nil || cause.Reason != failure.ReasonAuthFailed {
		return
	}
	r.forget(of)
	*r = append(*r, refusedLogin{of: of, at: time.Now(), cause: cause})
	*r = (*r)[max(0, len(*r)-rememberedLogins):]
}

// forget notes that credentials are not refused any more.
func (r *refusedLogins) forget(of *auth.Credentials) {
	*r = slices.DeleteFunc(*r, func(last refusedLogin) bool { return last.of.Same(of) })
}

// of is why credentials were refused less than this time ago, and nil if they were not.
func (r refusedLogins) of(credentials *auth.Credentials, within time.Duration) *failure.Error {
	for _, last := range r {
		if last.of.Same(credentials) && time.Since(last.at) < within {
			return last.cause
		}
	}
	return nil
}

// firstCredentials returns the credentials in use, and loads them if nobody has. One does while others wait, so a Secret
// is read once.
func (s *server) firstCredentials(ctx context.Context) (*auth.Credentials, error) {
	if known, err := s.inUse(); known != nil || err != nil {
		return known, err
	}
	if err := enter(ctx, s.credentials.loading); err != nil {
		return nil, err
	}
	defer func() { <-s.credentials.loading }()
	if known, err := s.inUse(); known != nil || err != nil {
		return known, err
	}
	loaded, cause := s.load(ctx)
	if cause != nil {
		return nil, cause
	}
	return s.health.begin(loaded)
}

// inUse returns the credentials in use, if there are any, unless the server is down.
func (s *server) inUse() (*auth.Credentials, error) {
	inUse, err := s.health.usable()
	if err != nil {
		return nil, err
	}
	return inUse.credentials, nil
}

// reload is load within the time of a call.
func (s *server) reload(ctx context.Context) (*auth.Credentials, *failure.Error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.load(ctx)
}

// load finds the credentials as they are now. Nothing tells their password from then on.
func (s *server) load(ctx context.Context) (*auth.Credentials, *failure.Error) {
	loaded, cause := s.credentials.resolver.Load(ctx, s.endpoint)
	if cause == nil {
		s.passwords.Add(loaded.Password())
	}
	return loaded, cause
}

// lookAgain returns the credentials as they are now, or those in use if that is not known.
func (s *server) lookAgain(ctx context.Context) (*auth.Credentials, *failure.Error) {
	inUse, _ := s.health.look()
	known := inUse.credentials
	if known != nil && !s.endpoint.NeedsSecrets() {
		return known, nil
	}
	loaded, cause := s.reload(ctx)
	switch {
	case cause == nil && known != nil && loaded.Same(known):
		return known, nil
	case cause == nil:
		return loaded, nil
	case known != nil && !auth.Withdrawn(cause):
		return known, nil
	default:
		s.withdraw(known)
		return nil, cause
	}
}

// use has all that comes use these credentials. It is for the prober: while a server is down, no call holds a client.
func (s *server) use(candidate *auth.Credentials) { s.health.use(candidate).close() }

// withdraw forgets credentials that are in use, and ends what was made with them.
func (s *server) withdraw(inUse *auth.Credentials) {
	retired, done := s.health.withdraw(inUse)
	if !done { // They were replaced meanwhile.
		return
	}
	retired.close()
	s.pubSubs.closeAll()
}
