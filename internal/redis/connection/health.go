// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// health is whether a server can be used, and the clients it is used with. It is safe for concurrent use.
//
// The two share one lock, because each change of one depends on the other: a failure takes the server down only if the
// credentials that failed are still in use, and other credentials replace them only if the server is up. It follows
// that nobody is given clients while the server is down, and that all clients were made with what was in use then.
type health struct {
	mu sync.Mutex
	// inUse are the clients in use, and the credentials with them. They are never nil. Each change puts others in
	// their place, so one pointer tells whether anything has changed.
	inUse *clients
	down  *failure.Error // why the server cannot be used; nil while it can
	// restored is closed when the server comes up after it was down, and renewed when other credentials are in use.
	// Each is replaced then.
	restored, renewed chan struct{}
	// backoff spaces the probes. Only work that was done resets it, so a server that answers probes and nothing
	// else is tried ever less often.
	backoff Backoff
}

// newHealth returns that of a server that is up, as far as anybody knows.
func newHealth(inUse *clients) *health {
	return &health{inUse: inUse, restored: make(chan struct{}), renewed: make(chan struct{})}
}

// look returns the clients in use and why the server is down, as they are at one moment.
func (h *health) look() (inUse *clients, down *failure.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inUse, h.down
}

// usable returns the clients in use, or why the server is down.
func (h *health) usable() (*clients, error) {
	inUse, down := h.look()
	if down != nil {
		return nil, down
	}
	return inUse, nil
}

// succeeded notes that the server did some work.
func (h *health) succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.backoff.Reset()
}

// fail takes the server down, unless it is down already or the credentials that failed are not in use: what fails with
// credentials that were replaced says nothing. It returns the clients to close.
func (h *health) fail(credentials *auth.Credentials, cause *failure.Error) (retired *clients, wentDown bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down != nil || h.inUse.credentials != credentials {
		return nil, false
	}
	h.down = cause
	h.backoff.Begin()
	return h.change(credentials), true
}

// stillDown replaces why the server is down.
func (h *health) stillDown(cause *failure.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = cause
}

// restore lets calls through again.
func (h *health) restore() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.restored)
	h.down, h.restored = nil, make(chan struct{})
}

// beginProbe notes that a probe begins.
func (h *health) beginProbe() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.backoff.Begin()
}

// probeDelay returns how long to wait before the next probe of a server that is down.
func (h *health) probeDelay(e auth.Endpoint, refusedAuth time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	refused := h.down.Reason == failure.ReasonAuthFailed
	switch {
	case refused && !e.NeedsSecrets():
		return refusedAuth
	case refused && h.backoff.attempts == 1: // The Secret may hold another password by now.
		return 0
	default:
		return h.backoff.Delay()
	}
}

// state returns why the server is down, which is nil while it is up, and the channel that is closed when it comes up
// the next time.
func (h *health) state() (down *failure.Error, restored <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down, h.restored
}

// succeeds reports whether what was made with these credentials is to be made again with others now. The channel is
// closed when that may have changed.
func (h *health) succeeds(credentials *auth.Credentials) (due bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch now := h.inUse.credentials; {
	case h.down != nil:
		return false, h.restored
	case now == nil || now == credentials:
		return false, h.renewed
	default:
		return true, nil
	}
}

// begin puts the first credentials in use, and returns those in use then: somebody else may have found some. While the
// server is down its prober finds them.
func (h *health) begin(first *auth.Credentials) (*auth.Credentials, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down != nil {
		return nil, h.down
	}
	if h.inUse.credentials == nil {
		h.change(first)
	}
	return h.inUse.credentials, nil
}

// use puts credentials in use, whatever the state of the server. It returns the clients to close.
func (h *health) use(credentials *auth.Credentials) (retired *clients) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.change(credentials)
}

// replace puts other credentials in use in place of certain ones. While the server is down it does not: the prober finds
// out what can be used, and may know better. It returns the clients to close.
func (h *health) replace(replaced, credentials *auth.Credentials) (retired *clients, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down != nil || h.inUse.credentials != replaced {
		return nil, false
	}
	return h.change(credentials), true
}

// withdraw puts no credentials in use in place of certain ones. It returns the clients to close.
func (h *health) withdraw(credentials *auth.Credentials) (retired *clients, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inUse.credentials != credentials {
		return nil, false
	}
	return h.change(nil), true
}

// retire has clients made anew, with the same credentials. It returns the clients to close.
func (h *health) retire() (retired *clients) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.change(h.inUse.credentials)
}

// change replaces the clients in use. It is called with the lock held.
func (h *health) change(credentials *auth.Credentials) (retired *clients) {
	retired = h.inUse
	h.inUse = retired.successor(credentials)
	if credentials != retired.credentials {
		close(h.renewed)
		h.renewed = make(chan struct{})
	}
	return retired
}
