// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import "sync"

// memory is what the users of a server remember about it.
type memory struct {
	once sync.Once
	of   any
}

// Memory returns what the users of the endpoint remember about it: what create returned at the first call, until the pool
// forgets the server. All callers must agree on the type.
func (c *Conn) Memory(create func() any) any {
	server, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return create()
	}
	defer c.pool.release(server)
	server.memory.once.Do(func() { server.memory.of = create() })
	return server.memory.of
}
