// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// rejection has credentials that cannot be used, and why. It is valid only while the credentials that stayed in use
// instead are in use, so nothing has to remove it when they change.
type rejection struct {
	instead, of *auth.Credentials
	cause       *failure.Error
}

// reject records that credentials could not replace those in use. It reports whether that is new.
func (s *server) reject(inUse, of *auth.Credentials, cause *failure.Error) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news = s.rejected == nil || s.rejected.instead != inUse || !of.Same(s.rejected.of)
	s.rejected = &rejection{instead: inUse, of: of, cause: cause}
	return news
}

// clearRejected records that the Secrets contain the credentials in use.
func (s *server) clearRejected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected = nil
}

// rejection returns why the current values of the Secrets did not replace the credentials in use. It is nil if they
// did, or if the server could not be asked.
func (s *server) rejection() *failure.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rejected == nil || s.rejected.instead != s.inUse.credentials || s.rejected.cause.Reason == failure.ReasonUnreachable {
		return nil
	}
	return s.rejected.cause
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

// failed records why the credentials in use failed. If the server rejects credentials that it accepted before, its
// users have changed, so it may now accept others that it rejected before.
func (r *refusedLogins) failed(of *auth.Credentials, cause *failure.Error) {
	if cause.Reason == failure.ReasonAuthFailed {
		*r = nil
	}
	r.add(of, cause)
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
// so that each Secret is read once. The error may be why the server is down.
func (s *server) firstCredentials(ctx context.Context) (*auth.Credentials, error) {
	if known, down := s.current(); known != nil || down != nil {
		return usable(known, down)
	}
	if err := acquireSlot(ctx, s.loading); err != nil {
		return nil, err
	}
	defer func() { <-s.loading }()
	if known, down := s.current(); known != nil || down != nil {
		return usable(known, down)
	}
	loaded, cause := s.load(ctx)
	if cause != nil {
		return nil, cause
	}
	s.replace(nil, loaded) // There was no client, so there is nothing to close.
	return usable(s.current())
}

// usable returns credentials in use, or why the server is down.
func usable(known *auth.Credentials, down *failure.Error) (*auth.Credentials, error) {
	if down != nil {
		return nil, down
	}
	return known, nil
}

// firstClient returns the client of a database. It loads the credentials if they are not loaded yet. The error is why
// the server is down or why the credentials could not be loaded.
func (s *server) firstClient(ctx context.Context, database int) (*redis.Client, error) {
	if _, err := s.firstCredentials(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	if client := s.client(database); client != nil {
		return client, nil
	}
	return nil, failure.ErrBusy // The credentials were revoked meanwhile.
}

// reload is load with the timeout of a call.
func (s *server) reload(ctx context.Context) (*auth.Credentials, *failure.Error) {
	ctx, cancel := context.WithTimeout(ctx, s.timing.call)
	defer cancel()
	return s.load(ctx)
}

// load reads the current credentials. From then on their password is removed from errors and logs.
func (s *server) load(ctx context.Context) (*auth.Credentials, *failure.Error) {
	loaded, cause := s.resolver.Load(ctx, s.endpoint)
	if cause == nil {
		if inUse, _ := s.current(); inUse != nil { // Its password stays among those that are removed.
			s.passwords.Add(inUse.Password())
		}
		s.passwords.Add(loaded.Password())
	}
	return loaded, cause
}

// lookAgain returns the current credentials. If the Secrets cannot be read now, it returns those in use.
func (s *server) lookAgain(ctx context.Context) (*auth.Credentials, *failure.Error) {
	known, _ := s.current()
	if known != nil && !s.endpoint.NeedsSecrets() {
		return known, nil
	}
	loaded, cause := s.reload(ctx)
	switch {
	case cause == nil && known != nil && loaded.Same(known):
		return known, nil
	case cause == nil:
		return loaded, nil
	case known != nil && !auth.Revoked(cause):
		return known, nil
	default:
		s.revoke(known)
		return nil, cause
	}
}

// check returns why credentials cannot be used now: the server has rejected them recently, or the server fails or
// rejects them now.
func (s *server) check(ctx context.Context, candidate *auth.Credentials) *failure.Error {
	s.mu.Lock()
	refused := s.refused.causeOf(candidate, s.timing.refusedAuth)
	s.mu.Unlock()
	if refused != nil {
		return refused
	}
	cause := s.passwords.Error(failure.Classify(s.ping(ctx, candidate)))
	if cause == nil || !marksDown(cause) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused.add(candidate, cause)
	return cause
}

// ping connects with these credentials and waits for the reply to PING. It has as much time as a subscription.
func (s *server) ping(ctx context.Context, with *auth.Credentials) error {
	conn, err := s.connect(ctx, with, resp.Guard, func(ctx context.Context, conn net.Conn) error {
		return s.greet(ctx, conn, with, nil, 0, []string{"ping"})
	})
	if err != nil {
		return err
	}
	return conn.Close()
}
