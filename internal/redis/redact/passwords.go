// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"slices"
	"sync"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// remembered is how many passwords of a server are known: that in use, that which may take its
// place, and those before of which connections may be left.
const remembered = 4

// Register has the passwords of all servers in use, for texts that do not tell whose they are. It is
// safe for concurrent use.
type Register struct {
	mu sync.Mutex
	// spelled is how those of each server may appear in a text.
	spelled map[*Passwords][]string
}

// NewRegister makes a Register of no server.
func NewRegister() *Register { return &Register{spelled: map[*Passwords][]string{}} }

// Add makes room for the passwords of one more server.
func (r *Register) Add() *Passwords { return &Passwords{register: r} }

// Text returns a text without any of the passwords.
func (r *Register) Text(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, spelled := range r.spelled {
		text = cutOut(text, spelled)
	}
	return text
}

// Passwords are those that one server may repeat. They are safe for concurrent use.
type Passwords struct {
	register *Register

	mu sync.Mutex
	// known are those that were added last, and spelled is how they may appear in a text.
	known, spelled []string
	forgotten      bool
}

// Add notes a password, which nothing tells from then on. The last four are remembered.
func (p *Passwords) Add(password string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if password == "" || slices.Contains(p.known, password) {
		return
	}
	p.known = append(p.known, password)
	p.known = p.known[max(0, len(p.known)-remembered):]
	p.spelled = nil
	for _, each := range p.known {
		p.spelled = append(p.spelled, spellings(each)...)
	}
	if !p.forgotten {
		p.register.set(p, p.spelled)
	}
}

// Error returns an error without the passwords. It keeps its class. It returns nil for nil.
func (p *Passwords) Error(err *failure.Error) *failure.Error {
	p.mu.Lock()
	spelled := p.spelled
	p.mu.Unlock()
	return withoutPasswords(err, spelled)
}

// Forget takes the passwords out of the register, for good. Errors are still returned without them.
func (p *Passwords) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgotten = true
	p.register.set(p, nil)
}

// set notes how the passwords of a server are spelled. Without any the server is not known any more.
func (r *Register) set(of *Passwords, spelled []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if spelled == nil {
		delete(r.spelled, of)
		return
	}
	r.spelled[of] = spelled
}
