// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"slices"
	"strings"
	"sync"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// remembered is how many passwords of a server are remembered: the one in use, the next one, and former ones that open
// connections may still use.
const remembered = 4

// Register has the passwords of all servers in use. It is for log texts that do not tell which server they are about.
// It is safe for concurrent use.
type Register struct {
	mu sync.Mutex
	// spelled has the spellings of each server's passwords.
	spelled map[*Passwords][]string
}

// NewRegister returns an empty Register.
func NewRegister() *Register { return &Register{spelled: map[*Passwords][]string{}} }

// Add registers a server, which has no passwords yet.
func (r *Register) Add() *Passwords { return &Passwords{register: r} }

// Text returns the text without the passwords of all servers.
func (r *Register) Text(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, spelled := range r.spelled {
		text = cutOut(text, spelled)
	}
	return text
}

// Passwords has the passwords of one server. It is safe for concurrent use.
type Passwords struct {
	register *Register

	mu sync.Mutex
	// known has the passwords that were added last, and spelled their spellings.
	known, spelled []string
	forgotten      bool
}

// Add adds a password, which is removed from all texts from then on. The last four passwords are remembered.
func (p *Passwords) Add(password string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if password == "" {
		return
	}
	p.known = append(slices.DeleteFunc(p.known, func(known string) bool { return known == password }), password)
	p.known = p.known[max(0, len(p.known)-remembered):]
	p.spelled = nil
	for _, each := range p.known {
		p.spelled = append(p.spelled, spellings(each)...)
	}
	if !p.forgotten {
		p.register.set(p, p.spelled)
	}
}

// Error returns err without the passwords, with the same reason and message. It returns nil for nil.
func (p *Passwords) Error(err *failure.Error) *failure.Error {
	p.mu.Lock()
	spelled := p.spelled
	p.mu.Unlock()
	return withoutPasswords(err, spelled)
}

// In reports whether a text contains one of the passwords, in upper or lower case.
func (p *Passwords) In(text string) bool {
	text = strings.ToLower(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.spelled, func(each string) bool {
		each = strings.ToLower(each)
		return strings.Contains(text, each[:min(len(each), tellingBytes)])
	})
}

// Forget removes the passwords from the register, permanently. Error still removes them from errors.
func (p *Passwords) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgotten = true
	p.register.set(p, nil)
}

// set sets the spellings for a server. If there are none, it removes the server.
func (r *Register) set(of *Passwords, spelled []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if spelled == nil {
		delete(r.spelled, of)
		return
	}
	r.spelled[of] = spelled
}
