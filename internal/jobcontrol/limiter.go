// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"sync"
	"time"
)

// RequestsEach is the maximum number of creates and deletes about one namespace that are under way at the same time. To
// the API server, all requests of the operator are of one user, who has a share of what the API server does at the same
// time. Without this limit, the requests about one namespace use it up while its admission webhooks are slow.
const RequestsEach = 32

// Limiter bounds the requests about each namespace that are under way. The zero value is ready for use. Limiter is safe
// for concurrent use.
type Limiter struct {
	mu  sync.Mutex
	all map[string]*slots
}

// slots are those of one namespace. users is the number of requests that have a slot or wait for one.
type slots struct {
	taken chan struct{}
	users int
}

// begin waits for a slot until then, or until ctx ends. It returns how to give it back; nil if there was none.
func (l *Limiter) begin(ctx context.Context, namespace string, until time.Time) (end func()) {
	own := l.join(namespace)
	wait := time.NewTimer(time.Until(until))
	defer wait.Stop()
	select {
	case own.taken <- struct{}{}:
		return func() {
			<-own.taken
			l.leave(namespace)
		}
	case <-ctx.Done():
	case <-wait.C:
	}
	l.leave(namespace)
	return nil
}

func (l *Limiter) join(namespace string) *slots {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]*slots{}
	}
	if l.all[namespace] == nil {
		l.all[namespace] = &slots{taken: make(chan struct{}, RequestsEach)}
	}
	l.all[namespace].users++
	return l.all[namespace]
}

func (l *Limiter) leave(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[namespace].users--; l.all[namespace].users == 0 {
		delete(l.all, namespace)
	}
}
