// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"sync"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// clients are the clients of one server that use the same credentials, one for each database. [health] replaces them as
// a whole and closes them, and their credentials never change. So code that holds clients also knows their credentials.
// They are safe for concurrent use.
type clients struct {
	// credentials are nil until they are loaded. Until then there are no clients.
	credentials *auth.Credentials
	connect     func(credentials *auth.Credentials, database int) *redis.Client

	mu         sync.Mutex
	byDatabase map[int]*redis.Client
	// closed prevents new clients: a call may have been admitted just before close.
	closed bool
}

// successor returns an empty replacement with other credentials.
func (c *clients) successor(credentials *auth.Credentials) *clients {
	return &clients{credentials: credentials, connect: c.connect, byDatabase: map[int]*redis.Client{}}
}

// get returns the client of a database. It returns nil if there are no credentials, or after close.
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

// has reports whether client is the current client of the database. It is not after it was closed.
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

// close closes all clients. Calls on them fail.
func (c *clients) close() {
	c.mu.Lock()
	closing := c.byDatabase
	c.byDatabase, c.closed = nil, true
	c.mu.Unlock()
	for _, client := range closing {
		_ = client.Close()
	}
}
