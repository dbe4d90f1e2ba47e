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
	// readsAtOnce is for how many endpoints Secrets are read again at the same time. The resolver reads more at once,
	// so that it has room for those who wait for their first credentials.
	readsAtOnce = 4
	// looks is in how many parts the time between two looks at the Secrets of an endpoint is cut,
	// so that not all are read at once.
	looks = 10
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
		for _, server := range p.due() {
			renewals.Go(func() {
				defer server.credentials.renewing.Store(false)
				p.renew(ctx, server, reading)
			})
		}
	}
}

// due are the servers whose Secrets are to be read now, but for those of which they still are. It
// notes when each is the next time. A server that was made since the last look has just read its own.
func (p *Pool) due() []*server {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*server
	now := time.Now()
	for endpoint, server := range p.servers {
		if !endpoint.NeedsSecrets() || now.Before(server.rereadAt) {
			continue
		}
		if !server.rereadAt.IsZero() && !server.credentials.renewing.Swap(true) {
			found = append(found, server)
		}
		server.rereadAt = now.Add(p.timing.reread + rand.N(p.timing.reread/5))
	}
	return found
}

// renew puts the credentials in use that the Secrets of a server hold now, once the server has accepted them. Until then
// those before stay in use. Reading has room for those who read, and is left before the server is asked: that one may be
// slow.
func (p *Pool) renew(ctx context.Context, server *server, reading chan struct{}) {
	if enter(ctx, reading) != nil {
		return
	}
	inUse, _ := server.inUse()
	if inUse == nil { // It is not used yet, or its prober does the same.
		<-reading
		return
	}
	loaded, cause := server.reload(ctx)
	<-reading
	switch {
	case cause != nil && auth.Withdrawn(cause):
		server.markDown(inUse, cause)
		server.withdraw(inUse)
	case cause != nil:
		p.log.V(1).Info("The Secrets for a Redis server could not be read again",
			"endpoint", server.endpoint.String(), "cause", cause.Cause())
	case loaded.Same(inUse):
		server.credentials.settle()
	default:
		p.handOver(ctx, server, inUse, loaded)
	}
}

// handOver puts other credentials in use, if the server accepts them.
func (p *Pool) handOver(ctx context.Context, server *server, inUse, loaded *auth.Credentials) {
	if cause := server.check(ctx, loaded, p.timing.refusedAuth); cause != nil {
		if server.credentials.reject(inUse, loaded, cause) {
			p.log.Info("Redis cannot be used with what the Secrets hold now. What they held before stays in use.",
				"endpoint", server.endpoint.String(), "cause", cause.Error())
		}
		return
	}
	retired, replaced := server.health.replace(inUse, loaded)
	if !replaced {
		return
	}
	p.log.Info("Redis is used with what the Secrets hold now", "endpoint", server.endpoint.String())
	select { // Calls under way end.
	case <-ctx.Done():
	case <-time.After(callTimeout):
	}
	retired.close()
}

// Rejected is why the server does not accept the credentials that the Secrets of an endpoint hold now, while those from
// before stay in use. It is nil if that is not so, or not known.
func (p *Pool) Rejected(e auth.Endpoint) *failure.Error {
	if e.Namespace == "" { // It has none.
		return nil
	}
	p.mu.Lock()
	server := p.servers[e]
	p.mu.Unlock()
	if server == nil {
		return nil
	}
	inUse, _ := server.health.look()
	return server.credentials.rejection(inUse.credentials)
}
