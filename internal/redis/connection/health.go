// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// health has whether a server is up or down, and the clients in use. It is safe for concurrent use.
//
// Both are under one lock, because each change of one depends on the other: a failure marks the server down only if the
// failed credentials are still in use, and other credentials replace them only while the server is up. So no caller
// gets clients while the server is down, and all clients have the credentials that were in use when they were made.
type health struct {
	mu sync.Mutex
	// inUse has the clients in use and their credentials. It is never nil, and each change replaces the pointer.
	inUse *clients
	down  *failure.Error // why the server is down; nil while it is up
	// restored is closed, and then replaced, when the server is marked up after it was down. renewed is closed, and
	// then replaced, when other credentials are in use.
	restored, renewed chan struct{}
	// backoff computes the delays between probes. Only a successful call resets it, so a server that only answers
	// probes is tried less and less often.
	backoff Backoff
}

// newHealth returns the health of a server that is not known to be down.
func newHealth(inUse *clients) *health {
	return &health{inUse: inUse, restored: make(chan struct{}), renewed: make(chan struct{})}
}

// current returns the clients in use and why the server is down, both at the same moment.
func (h *health) current() (inUse *clients, down *failure.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inUse, h.down
}

// usable returns the clients in use, or why the server is down.
func (h *health) usable() (*clients, error) {
	inUse, down := h.current()
	if down != nil {
		return nil, down
	}
	return inUse, nil
}

// succeeded records that the server has answered a call.
func (h *health) succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.backoff.Reset()
}

// fail marks the server down, unless it is down already or the failed credentials are no longer in use. It returns the
// clients to close.
func (h *health) fail(credentials *auth.Credentials, cause *failure.Error) (retired *clients, wentDown bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down != nil || h.inUse.credentials != credentials {
		return nil, false
	}
	h.down = cause
	h.backoff.Begin()
	return h.setInUse(credentials), true
}

// stillDown replaces the cause for which the server is down.
func (h *health) stillDown(cause *failure.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = cause
}

// restore marks the server up.
func (h *health) restore() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.restored)
	h.down, h.restored = nil, make(chan struct{})
}

// beginProbe records that a probe begins.
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
	case refused && h.backoff.attempts == 1: // The Secret may have another password by now.
		return 0
	default:
		return h.backoff.Delay()
	}
}

// state returns why the server is down, which is nil while it is up, and a channel that is closed the next time it is
// marked up.
func (h *health) state() (down *failure.Error, restored <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down, h.restored
}

// successorDue reports whether a connection with these credentials should be replaced by one with other credentials
// now. The channel is closed when the answer may change.
func (h *health) successorDue(credentials *auth.Credentials) (due bool, changed <-chan struct{}) {
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

// useFirst puts the first credentials in use, unless another caller was faster, and returns those in use. While the
// server is down, only the prober does that.
func (h *health) useFirst(first *auth.Credentials) (*auth.Credentials, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down != nil {
		return nil, h.down
	}
	if h.inUse.credentials == nil {
		h.setInUse(first)
	}
	return h.inUse.credentials, nil
}

// use puts the credentials in use, whether the server is up or down. It returns the clients to close.
func (h *health) use(credentials *auth.Credentials) (retired *clients) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.setInUse(credentials)
}

// replace replaces the credentials in use, if they are still those in replaced. It does nothing while the server is
// down: the prober then decides which credentials work. It returns the clients to close.
func (h *health) replace(replaced, credentials *auth.Credentials) (retired *clients, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down != nil || h.inUse.credentials != replaced {
		return nil, false
	}
	return h.setInUse(credentials), true
}

// withdraw removes these credentials if they are in use. It returns the clients to close.
func (h *health) withdraw(credentials *auth.Credentials) (retired *clients, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inUse.credentials != credentials {
		return nil, false
	}
	return h.setInUse(nil), true
}

// retire replaces the clients by new ones with the same credentials. It returns the clients to close.
func (h *health) retire() (retired *clients) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.setInUse(h.inUse.credentials)
}

// setInUse replaces the clients in use. The lock must be held.
func (h *health) setInUse(credentials *auth.Credentials) (retired *clients) {
	retired = h.inUse
	h.inUse = retired.successor(credentials)
	if credentials != retired.credentials {
		close(h.renewed)
		h.renewed = make(chan struct{})
	}
	return retired
}
