// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"sync"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// clients are the clients of one server that were made with the same credentials, one for each database. They are used
// until [health] puts others in their place, and closed then: the credentials in them never change, so whoever has
// clients also knows what they were made with. They are safe for concurrent use.
type clients struct {
	// credentials are nil while none are known. Then there are no clients.
	credentials *auth.Credentials
	connect     func(credentials *auth.Credentials, database int) *redis.Client

	mu         sync.Mutex
	byDatabase map[int]*redis.Client
	// closed says to make no more clients. A call may have been admitted just before.
	closed bool
}

// successor returns the clients that take the place of these, with none made yet.
func (c *clients) successor(credentials *auth.Credentials) *clients {
	return &clients{credentials: credentials, connect: c.connect, byDatabase: map[int]*redis.Client{}}
}

// get returns the client of a database, and nil without credentials or after close.
func (c *clients) get(database int) *redis.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.byDatabase[database]
	if found == nil && c.credentials != nil && !c.closed {
		found = c.connect(c.credentials, database)
		c.byDatabase[database] = found
	}
	return found
}

// has reports whether a client is the present one of a database. A closed one is not.
func (c *clients) has(database int, client *redis.Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return client != nil && c.byDatabase[database] == client
}

// closeDatabase closes the client of a database, if there is one.
func (c *clients) closeDatabase(database int) {
	c.mu.Lock()
	client := c.byDatabase[database]
	delete(c.byDatabase, database)
	c.mu.Unlock()
	if client != nil {
		_ = client.Close()
	}
}

// close closes all clients, which makes the calls on them fail.
func (c *clients) close() {
	c.mu.Lock()
	closing := c.byDatabase
	c.byDatabase, c.closed = nil, true
	c.mu.Unlock()
	for _, client := range closing {
		_ = client.Close()
	}
}
