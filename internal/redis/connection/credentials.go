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

// credentials has the state of the credentials of one server, except for those in use, which are in [health]. It is
// safe for concurrent use.
type credentials struct {
	resolver *auth.Resolver
	// loading is held while the credentials are loaded for the first time.
	loading chan struct{}
	// renewing is true while the Secrets are read again.
	renewing atomic.Bool

	mu      sync.Mutex
	refused refusedLogins
	// rejected has the current values of the Secrets if they could not replace the credentials in use.
	rejected *rejection
}

// rejection has credentials that cannot be used, and why. It is valid only while the credentials that stayed in use
// instead are in use, so nothing has to remove it when they change.
type rejection struct {
	instead, of *auth.Credentials
	cause       *failure.Error
}

// reject records that credentials could not replace those in use. It reports whether that is new.
func (c *credentials) reject(inUse, of *auth.Credentials, cause *failure.Error) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news = c.rejected == nil || c.rejected.instead != inUse || !of.Same(c.rejected.of)
	c.rejected = &rejection{instead: inUse, of: of, cause: cause}
	return news
}

// clearRejected records that the Secrets contain the credentials in use.
func (c *credentials) clearRejected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rejected = nil
}

// rejection returns why the current values of the Secrets did not replace the credentials in use. It is nil if they
// did, or if the server could not be asked.
func (c *credentials) rejection(inUse *auth.Credentials) *failure.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rejected == nil || c.rejected.instead != inUse || c.rejected.cause.Reason == failure.ReasonUnreachable {
		return nil
	}
	return c.rejected.cause
}

// recordFailure records why the credentials in use failed. If the server rejects credentials that it accepted before,
// its users have changed, so it may now accept others that it rejected before.
func (c *credentials) recordFailure(of *auth.Credentials, cause *failure.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cause.Reason == failure.ReasonAuthFailed {
		c.refused = nil
	}
	c.refused.add(of, cause)
}

// recordRefused records that a server rejected credentials, if that is the cause.
func (c *credentials) recordRefused(of *auth.Credentials, cause *failure.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused.add(of, cause)
}

// recordAccepted records that the server accepts the credentials.
func (c *credentials) recordAccepted(of *auth.Credentials) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused.remove(of)
}

// refusedWithin returns why the server rejected the credentials, if that was less than this time ago, and nil
// otherwise.
func (c *credentials) refusedWithin(of *auth.Credentials, within time.Duration) *failure.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused.causeOf(of, within)
}

// rememberedLogins is how many rejected credentials are remembered: those in use and their replacement.
const rememberedLogins = 2

// refusedLogins are the credentials that a server rejected last. Repeated attempts with them could lock the user out.
type refusedLogins []refusedLogin

// refusedLogin has when and why a server rejected credentials.
type refusedLogin struct {
	of    *auth.Credentials
	at    time.Time
	cause *failure.Error
}

// add remembers that the credentials were rejected, if that is the cause.
func (r *refusedLogins) add(of *auth.Credentials, cause *failure.Error) {
	if of == nil || cause.Reason != failure.ReasonAuthFailed {
		return
	}
	r.remove(of)
	*r = append(*r, refusedLogin{of: of, at: time.Now(), cause: cause})
	*r = (*r)[max(0, len(*r)-rememberedLogins):]
}

// remove forgets that the credentials were rejected.
func (r *refusedLogins) remove(of *auth.Credentials) {
	*r = slices.DeleteFunc(*r, func(last refusedLogin) bool { return last.of.Same(of) })
}

// causeOf returns why the credentials were rejected, if that was less than this time ago, and nil otherwise.
func (r refusedLogins) causeOf(credentials *auth.Credentials, within time.Duration) *failure.Error {
	for _, last := range r {
		if last.of.Same(credentials) && time.Since(last.at) < within {
			return last.cause
		}
	}
	return nil
}

// firstCredentials returns the credentials in use. If none are loaded yet, one caller loads them while the others wait,
// so that each Secret is read once.
func (s *server) firstCredentials(ctx context.Context) (*auth.Credentials, error) {
	if known, err := s.inUse(); known != nil || err != nil {
		return known, err
	}
	if err := acquireSlot(ctx, s.credentials.loading); err != nil {
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
	return s.health.useFirst(loaded)
}

// inUse returns the credentials in use, and nil if none are loaded. The error is why the server is down.
func (s *server) inUse() (*auth.Credentials, error) {
	inUse, err := s.health.usable()
	if err != nil {
		return nil, err
	}
	return inUse.credentials, nil
}

// reload is load with the timeout of a call.
func (s *server) reload(ctx context.Context) (*auth.Credentials, *failure.Error) {
	ctx, cancel := context.WithTimeout(ctx, s.timing.call)
	defer cancel()
	return s.load(ctx)
}

// load reads the current credentials. From then on their password is removed from errors and logs.
func (s *server) load(ctx context.Context) (*auth.Credentials, *failure.Error) {
	loaded, cause := s.credentials.resolver.Load(ctx, s.endpoint)
	if cause == nil {
		if inUse, _ := s.health.current(); inUse.credentials != nil { // Its password stays among those that are removed.
			s.passwords.Add(inUse.credentials.Password())
		}
		s.passwords.Add(loaded.Password())
	}
	return loaded, cause
}

// lookAgain returns the current credentials. If the Secrets cannot be read now, it returns those in use.
func (s *server) lookAgain(ctx context.Context) (*auth.Credentials, *failure.Error) {
	inUse, _ := s.health.current()
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

// use puts the credentials in use. It is for the prober: while a server is down, no call has a client.
func (s *server) use(candidate *auth.Credentials) { s.health.use(candidate).close() }

// withdraw stops the use of credentials and closes the connections that use them.
func (s *server) withdraw(inUse *auth.Credentials) {
	retired, done := s.health.withdraw(inUse)
	if !done { // Other credentials are in use now.
		return
	}
	retired.close()
	s.wires.closeAll()
}
