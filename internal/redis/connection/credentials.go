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

// firstCredentials returns the credentials, and loads it if nobody has. One does while others wait, so a
// Secret is read once.
func (s *server) firstCredentials(ctx context.Context) (*auth.Credentials, error) {
	if known, err := s.inUse(); known != nil || err != nil {
		return known, err
	}
	if err := enter(ctx, s.loading); err != nil {
		return nil, err
	}
	defer func() { <-s.loading }()
	if known, err := s.inUse(); known != nil || err != nil {
		return known, err
	}
	loaded, cause := s.load(ctx)
	if cause != nil {
		return nil, cause
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credentials = loaded
	return loaded, nil
}

// inUse returns the credentials, if there is one, unless the endpoint is down.
func (s *server) inUse() (*auth.Credentials, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	return s.credentials, nil
}

// reload is load within the time of a call.
func (s *server) reload(ctx context.Context) (*auth.Credentials, *failure.Error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.load(ctx)
}

// load finds the credentials as they are now. Nothing tells its password from then on.
func (s *server) load(ctx context.Context) (*auth.Credentials, *failure.Error) {
	loaded, cause := s.resolver.Load(ctx, s.endpoint)
	if cause == nil {
		s.passwords.Add(loaded.Password())
	}
	return loaded, cause
}

// lookAgain returns the credentials as they are now, or as they were if that is not known.
func (s *server) lookAgain(ctx context.Context) (*auth.Credentials, *failure.Error) {
	s.mu.Lock()
	inUse := s.credentials
	s.mu.Unlock()
	if inUse != nil && !s.endpoint.NeedsSecrets() {
		return inUse, nil
	}
	loaded, cause := s.reload(ctx)
	switch {
	case cause == nil && inUse != nil && loaded.Same(inUse):
		return inUse, nil
	case cause == nil:
		return loaded, nil
	case inUse != nil && !auth.Withdrawn(cause):
		return inUse, nil
	default:
		s.withdraw()
		return nil, cause
	}
}

// use has all that comes use these credentials, and returns the clients of the one before.
func (s *server) use(candidate *auth.Credentials) (old map[int]*redis.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change(candidate)
}

// replace is use in place of certain credentials. Where the endpoint went down meanwhile, it is for
// the prober to find out what can be used, and it may know better.
func (s *server) replace(inUse, candidate *auth.Credentials) (old map[int]*redis.Client, replaced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.credentials != inUse || s.down != nil {
		return nil, false
	}
	return s.change(candidate), true
}

// change is called with the lock held.
func (s *server) change(candidate *auth.Credentials) (old map[int]*redis.Client) {
	if s.credentials == candidate {
		return nil
	}
	old, s.clients = s.clients, map[int]*redis.Client{}
	s.credentials, s.rejected = candidate, nil
	close(s.renewed)
	s.renewed = make(chan struct{})
	return old
}

// withdraw forgets the credentials, and ends what was made with it.
func (s *server) withdraw() {
	closeAll(s.use(nil))
	s.closePubSubs()
}

// rememberedLogins is how many credentials are remembered: the one in use and the one to be.
const rememberedLogins = 2

// refusedLogins are what a server refused last. To try it again and again could lock the user out.
type refusedLogins []refusedLogin

// refusedLogin is when and for what a server refused credentials.
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
