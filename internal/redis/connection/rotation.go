// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"time"

	"miracle.dev/scaledjob-operator/internal/moment"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// renewalsAtOnce is how many endpoints may read their Secrets again at the same time. It is less than the limit of
	// [auth.Resolver], which leaves room for endpoints that read theirs for the first time.
	renewalsAtOnce = 4
	// forbiddenInterval is the minimum time between two log lines that Secrets in use may not be read any more.
	forbiddenInterval = time.Minute
)

// renew reads the Secrets of a server and puts the new credentials in use, if the server accepts them. Call it with one
// of the slots. It gives the slot back when it has read, because the server may answer slowly.
func (p *Pool) renew(ctx context.Context, server *server) {
	inUse, down := server.current()
	if inUse == nil || down != nil { // The first call, or the next probe, loads them.
		<-p.renewals
		return
	}
	loaded, cause := server.reload(ctx)
	<-p.renewals
	switch {
	case cause != nil && auth.Revoked(cause):
		server.markDown(inUse, cause)
		server.revoke(inUse)
	case cause != nil:
		p.logUnread(server, cause)
	case loaded.Same(inUse):
		server.clearRejected()
	default:
		p.handOver(ctx, server, inUse, loaded)
	}
}

// logUnread logs that Secrets in use could not be read again.
func (p *Pool) logUnread(server *server, cause *failure.Error) {
	endpoint := server.endpoint.String()
	p.log.V(1).Info("The Secrets for a Redis server could not be read again", "endpoint", endpoint, "cause", cause.Cause())
	if cause.Reason == failure.ReasonSecretForbidden {
		p.forbidden.Do(func() {
			p.log.Error(nil, "The operator may not read a Secret any more, and does not notice if it changes: allow "+
				"its ServiceAccount to get Secrets in the namespace", "endpoint", endpoint)
		})
	}
}

// handOver replaces the credentials in use, if the server accepts the new ones.
func (p *Pool) handOver(ctx context.Context, server *server, inUse, loaded *auth.Credentials) {
	if cause := server.check(ctx, loaded); cause != nil {
		if server.reject(inUse, loaded, cause) {
			p.log.Info("Redis cannot be used with the new values of the Secrets. The operator keeps using the previous values.",
				"endpoint", server.endpoint.String(), "cause", cause.Error())
		}
		return
	}
	retired, replaced := server.replace(inUse, loaded)
	if !replaced {
		return
	}
	server.permits.retire()
	p.log.Info("Redis is now used with the new values of the Secrets", "endpoint", server.endpoint.String())
	select { // Let the calls that use the old clients end.
	case <-ctx.Done():
	case <-time.After(p.timing.call):
	}
	retired.close()
}

// CertificatesExpire returns when the first of the certificates in the Secrets that the endpoint names expires; zero if
// there is none, or if no connection has needed them yet.
func (p *Pool) CertificatesExpire(e auth.Endpoint) (first time.Time) {
	if !e.TLS.Enabled || e.Namespace == "" {
		return time.Time{}
	}
	for _, server := range p.serversIn(e) {
		inUse, _ := server.current()
		first = moment.First(first, inUse.Expires())
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
		if rejected := server.rejection(); rejected != nil {
			return rejected
		}
	}
	return nil
}

// serversIn is serversOf without the lock.
func (p *Pool) serversIn(claimed auth.Endpoint) []*server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.serversOf(claimed)
}
