// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/rediserror"
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

// tryAgain looks whether a peer that is down can be used with what its Secrets hold now.
func (p *peer) tryAgain(ctx context.Context, refusedAuth time.Duration) *rediserror.Error {
	candidate, cause := p.lookAgain(ctx)
	if cause != nil {
		return cause
	}
	if refused := p.refusal(candidate, refusedAuth); refused != nil {
		return refused
	}
	if err := ping(ctx, p, candidate); err != nil {
		if cause := p.clean(rediserror.Classify(err)); endsUse(cause) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.noteRefusal(candidate, cause)
			return cause
		}
	}
	p.use(candidate)
	return nil
}

// lookAgain returns the access as it is now, or as it was if that is not known.
func (p *peer) lookAgain(ctx context.Context) (*access, *rediserror.Error) {
	p.mu.Lock()
	inUse := p.access
	p.mu.Unlock()
	if inUse != nil && !p.endpoint.NeedsSecrets() {
		return inUse, nil
	}
	loaded, err := p.reload(ctx)
	switch {
	case err == nil && inUse != nil && loaded.values == inUse.values:
		return inUse, nil
	case err == nil:
		return loaded, nil
	case inUse != nil && !withdrawn(err):
		return inUse, nil
	default:
		p.withdraw()
		return nil, notKnown(err)
	}
}

// withdraw forgets the access, and ends what was made with it.
func (p *peer) withdraw() {
	closeAll(p.use(nil))
	p.closePubSubs()
}

// withdrawn reports whether an error of loading says that the Secrets do not hold any more what is
// needed. Any other says that it is not known what they hold.
func withdrawn(err error) bool {
	classified, ok := errors.AsType[*rediserror.Error](err)
	return ok && classified.Reason != rediserror.ReasonSecretForbidden
}

// refusal is when and for what a server refused credentials.
type refusal struct {
	of    values
	at    time.Time
	cause *rediserror.Error
}

// noteRefusal is called with the lock held.
func (p *peer) noteRefusal(with *access, cause *rediserror.Error) {
	if with != nil && cause.Reason == rediserror.ReasonAuthFailed {
		p.refused = refusal{of: with.values, at: time.Now(), cause: cause}
	}
}

// refusal is why the server refused these credentials, if it did so a short while ago. To try them
// again and again could lock the user out.
func (p *peer) refusal(of *access, refusedAuth time.Duration) *rediserror.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused.cause != nil && p.refused.of == of.values && time.Since(p.refused.at) < refusedAuth {
		return p.refused.cause
	}
	return nil
}

// use has all that comes use this access, and returns the clients of the one before.
func (p *peer) use(candidate *access) (old map[int]*redis.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.change(candidate)
}

// replace is use in place of a certain access. Where the endpoint went down meanwhile, it is for
// the prober to find out what can be used, and it may know better.
func (p *peer) replace(inUse, candidate *access) (old map[int]*redis.Client, replaced bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.access != inUse || p.down != nil {
		return nil, false
	}
	return p.change(candidate), true
}

// change is called with the lock held.
func (p *peer) change(candidate *access) (old map[int]*redis.Client) {
	if p.access == candidate {
		return nil
	}
	old, p.clients = p.clients, map[int]*redis.Client{}
	p.access = candidate
	close(p.renewed)
	p.renewed = make(chan struct{})
	return old
}

// ping makes a connection of its own with an access, and gets one answer.
func ping(ctx context.Context, to *peer, with *access) error {
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
