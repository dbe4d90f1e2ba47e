// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// client returns the client of a database, which is nil if there is no access.
func (p *peer) client(database int) *redis.Client {
	found := p.clients[database]
	if found == nil && p.access != nil {
		found = newClient(p.endpoint, p.access, database, p.dialCommand(p.access))
		p.clients[database] = found
	}
	return found
}

// firstClient returns the client of a database, for which it loads the access if nobody has. The
// error is a cause for which the endpoint is down.
func (p *peer) firstClient(ctx context.Context, database int) (*redis.Client, error) {
	if _, err := p.firstAccess(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return nil, p.down
	}
	if client := p.client(database); client != nil {
		return client, nil
	}
	return nil, failure.ErrBusy // The access was withdrawn a moment ago.
}

// closeClients closes the clients, if there are any.
func (p *peer) closeClients() {
	p.mu.Lock()
	clients := p.clients
	p.clients = map[int]*redis.Client{}
	p.mu.Unlock()
	closeAll(clients)
}

// closeDatabase closes the client of a database, if there is one.
func (p *peer) closeDatabase(database int) {
	p.mu.Lock()
	client := p.clients[database]
	delete(p.clients, database)
	p.mu.Unlock()
	if client != nil {
		_ = client.Close()
	}
}

func closeAll(clients map[int]*redis.Client) {
	for _, client := range clients {
		_ = client.Close()
	}
}
