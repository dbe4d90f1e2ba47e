// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// probe tries a peer that is down until it is up or forgotten, or ctx is done.
func (p *Pool) probe(ctx context.Context, down *peer) {
	for p.knows(down) {
		select {
		case <-ctx.Done():
			return
		case <-down.gone:
			return
		case <-time.After(down.probeDelay(p.timing.refusedAuth)):
		}
		down.beginProbe()
		if cause := down.tryAgain(ctx, p.timing.refusedAuth); cause != nil {
			down.stillDown(cause)
			continue
		}
		down.markUp()
		p.log.Info("Redis can be used again", "endpoint", down.endpoint.String())
		return
	}
}

// tryAgain looks whether a peer that is down can be used with what its Secrets hold now, and else
// with what it was used before: the server may not know the new password yet.
func (p *peer) tryAgain(ctx context.Context, refusedAuth time.Duration) *failure.Error {
	candidate, cause := p.lookAgain(ctx)
	if cause != nil {
		return cause
	}
	p.mu.Lock()
	before := p.credentials
	p.mu.Unlock()
	cause = p.try(ctx, candidate, refusedAuth)
	if cause == nil || before == nil || before == candidate || !isRefusal(cause) {
		return cause
	}
	if p.try(ctx, before, refusedAuth) == nil {
		return nil
	}
	return cause
}

// isRefusal reports whether other credentials may help.
func isRefusal(cause *failure.Error) bool {
	return cause.Reason == failure.ReasonAuthFailed || cause.Reason == failure.ReasonTLSFailed
}

// try has a peer that is down used with credentials, if the server lets somebody in with that.
func (p *peer) try(ctx context.Context, candidate *auth.Credentials, refusedAuth time.Duration) *failure.Error {
	if cause := p.check(ctx, candidate, refusedAuth); cause != nil {
		return cause
	}
	p.use(candidate)
	return nil
}

// check is why credentials cannot be used now: the server refused it a short while ago, or lets nobody
// in with it.
func (p *peer) check(ctx context.Context, candidate *auth.Credentials, refusedAuth time.Duration) *failure.Error {
	p.mu.Lock()
	refused := p.refused.of(candidate, refusedAuth)
	p.mu.Unlock()
	if refused != nil {
		return refused
	}
	cause := p.passwords.Error(failure.Classify(ping(ctx, p, candidate)))
	if cause == nil || !endsUse(cause) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused.note(candidate, cause)
	return cause
}

// ping makes a connection of its own with credentials, and gets one answer.
func ping(ctx context.Context, to *peer, with *auth.Credentials) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pubSub, err := newPubSub(ctx, to, with, to.dialProbe(with))
	if err != nil {
		return err
	}
	defer pubSub.Close()
	defer context.AfterFunc(ctx, pubSub.Close)()
	_, err = pubSub.Receive(ctx, callTimeout)
	return err
}

func (p *Pool) knows(candidate *peer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peers[candidate.endpoint] == candidate
}
