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
	// renewalsAtOnce is how many endpoints may read their Secrets again at the same time. It is less than the limit of
	// [auth.Resolver], which leaves room for endpoints that read theirs for the first time.
	renewalsAtOnce = 4
	// rereadTicks is how many times in each interval the pool checks which endpoints are due, so that not all Secrets
	// are read at once.
	rereadTicks = 10
	// rereadJitter is the random part of the interval.
	rereadJitter = 0.2
	// forbiddenInterval is the minimum time between two log lines that Secrets in use may not be read any more.
	forbiddenInterval = time.Minute
)

// followSecrets reads the Secrets of the endpoints again and again, until ctx is done.
func (p *Pool) followSecrets(ctx context.Context) {
	ticker := time.NewTicker(p.timing.reread / rereadTicks)
	defer ticker.Stop()
	var renewals sync.WaitGroup
	defer renewals.Wait()
	reading := make(chan struct{}, renewalsAtOnce)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, server := range p.dueForReread() {
			renewals.Go(func() {
				defer server.credentials.renewing.Store(false)
				p.renew(ctx, server, reading)
			})
		}
	}
}

// dueForReread returns the servers whose Secrets are due, except for those whose Secrets are being read, and schedules
// their next read. It skips servers that are new since the last call, because these have just read their Secrets.
func (p *Pool) dueForReread() []*server {
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
		server.rereadAt = now.Add(p.timing.reread + time.Duration(float64(p.timing.reread)*rereadJitter*rand.Float64()))
	}
	return found
}

// renew reads the Secrets of a server and puts the new credentials in use, if the server accepts them. It has a slot in
// reading only while it reads, because the server may answer slowly.
func (p *Pool) renew(ctx context.Context, server *server, reading chan struct{}) {
	if acquireSlot(ctx, reading) != nil {
		return
	}
	inUse, _ := server.inUse()
	if inUse == nil { // The first call, or the prober, loads them.
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
		if cause.Reason == failure.ReasonSecretForbidden {
			p.forbidden.Do(func() {
				p.log.Error(nil, "The operator may not read a Secret any more, and does not notice if it changes: allow "+
					"its ServiceAccount to get Secrets in the namespace", "endpoint", server.endpoint.String())
			})
		}
	case loaded.Same(inUse):
		server.credentials.clearRejected()
	default:
		p.handOver(ctx, server, inUse, loaded)
	}
}

// handOver replaces the credentials in use, if the server accepts the new ones.
func (p *Pool) handOver(ctx context.Context, server *server, inUse, loaded *auth.Credentials) {
	if cause := server.check(ctx, loaded, p.timing.refusedAuth); cause != nil {
		if server.credentials.reject(inUse, loaded, cause) {
			p.log.Info("Redis cannot be used with the new values of the Secrets. The operator keeps using the previous values.",
				"endpoint", server.endpoint.String(), "cause", cause.Error())
		}
		return
	}
	retired, replaced := server.health.replace(inUse, loaded)
	if !replaced {
		return
	}
	server.seats.retire()
	p.log.Info("Redis is now used with the new values of the Secrets", "endpoint", server.endpoint.String())
	select { // Let the calls that use the old clients end.
	case <-ctx.Done():
	case <-time.After(p.timing.call):
	}
	retired.close()
}

// CertificatesExpire returns when the first of the certificates in the Secrets that the endpoint names expires; zero if there
// is none, or if no connection has needed them yet.
func (p *Pool) CertificatesExpire(e auth.Endpoint) (first time.Time) {
	if !e.TLS.Enabled || e.Namespace == "" {
		return time.Time{}
	}
	for _, server := range p.serversIn(e) {
		inUse, _ := server.health.current()
		if at := inUse.credentials.Expires(); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// Rejected returns why the server, or a server of the deployment, does not accept the current values of the Secrets,
// while the previous values are still in use. It is nil if the server accepts them, or if that is not known.
func (p *Pool) Rejected(e auth.Endpoint) *failure.Error {
	if e.Namespace == "" { // The endpoint names no Secret.
		return nil
	}
	for _, server := range p.serversIn(e) {
		inUse, _ := server.health.current()
		if rejected := server.credentials.rejection(inUse.credentials); rejected != nil {
			return rejected
		}
	}
	return nil
}

// serversIn is serversOf without the lock.
func (p *Pool) serversIn(claimed auth.Endpoint) []*server {
	name := deploymentName(claimed)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.serversOf(claimed, name)
}
