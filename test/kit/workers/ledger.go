// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Ledger records what became of messages and Jobs. The zero value is empty. It is safe for concurrent use.
type Ledger struct {
	mu       sync.Mutex
	messages map[string]*fate
	// claims are how long it took each Job from when its Pod was ready until it took a
	// message or found none, and wasted is how many found none.
	claims []time.Duration
	wasted int
}

// fate is what became of a message.
type fate struct{ taken, served int }

// pushing returns the body of a new message, which is pushed right after that.
func (l *Ledger) pushing() (body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.messages == nil {
		l.messages = map[string]*fate{}
	}
	body = fmt.Sprint("message-", len(l.messages)+1)
	l.messages[body] = &fate{}
	return body
}

// claimed notes that a Job has taken a message or found none.
func (l *Ledger) claimed(body string, found bool, ready time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claims = append(l.claims, time.Since(ready))
	if !found {
		l.wasted++
		return
	}
	l.messages[body].taken++
}

func (l *Ledger) served(body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages[body].served++
}

// Pushed returns how many messages there were.
func (l *Ledger) Pushed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.messages)
}

// Taken returns how many messages have been taken.
func (l *Ledger) Taken() int {
	return len(l.having(func(f *fate) bool { return f.taken > 0 }))
}

// Served returns how many messages have been finished.
func (l *Ledger) Served() int {
	return len(l.having(func(f *fate) bool { return f.served > 0 }))
}

// Repeated returns the messages that were taken more than once.
func (l *Ledger) Repeated() []string {
	return slices.Sorted(slices.Values(l.having(func(f *fate) bool { return f.taken > 1 })))
}

// having are the messages whose fate is such.
func (l *Ledger) having(such func(*fate) bool) (bodies []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for body, of := range l.messages {
		if such(of) {
			bodies = append(bodies, body)
		}
	}
	return bodies
}

// Wasted returns how many Jobs found no message.
func (l *Ledger) Wasted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wasted
}

// Late returns how many Jobs took longer than this from when their Pod was ready until
// they took a message or found none.
func (l *Ledger) Late(grace time.Duration) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	late := slices.DeleteFunc(slices.Clone(l.claims), func(took time.Duration) bool { return took <= grace })
	return len(late)
}
