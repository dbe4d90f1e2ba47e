// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// redacted replaces a password.
	redacted = "[redacted]"
	// remembered is how many passwords of a server are remembered: the one in use, the next one, and former ones that open
	// connections may still use.
	remembered = 4
	// arguments begins what Redis and proxies append to the name of a command that they do not know: its arguments, of
	// which the last one may be cut off. So part of a password may follow.
	arguments = ", with args beginning with"
)

// Passwords has the passwords of one server. It is safe for concurrent use. The zero value has none.
type Passwords struct {
	mu sync.Mutex
	// known has the passwords that were added last, and forms has the texts to look for.
	known, forms []string
}

// Add adds a password, which is removed from all texts of the server from then on. The last four passwords are
// remembered.
func (p *Passwords) Add(password string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if password == "" {
		return
	}
	p.known = append(slices.DeleteFunc(p.known, func(known string) bool { return known == password }), password)
	p.known = p.known[max(0, len(p.known)-remembered):]
	p.forms = nil
	for _, each := range p.known {
		quoted := strconv.Quote(each)
		p.forms = append(p.forms, each, quoted[1:len(quoted)-1])
	}
}

// Error returns err with the same reason and message. Of what the server said, at most 1 KiB stays, without the
// passwords. Errors of the operator itself stay as they are. It returns nil for nil.
func (p *Passwords) Error(err *failure.Error) *failure.Error {
	p.mu.Lock()
	forms := p.forms
	p.mu.Unlock()
	return err.Redacted(func(said string) string { return shown(said, forms) })
}

// In reports whether a text contains one of the passwords, in upper or lower case.
func (p *Passwords) In(text string) bool {
	text = strings.ToLower(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.known, func(each string) bool { return strings.Contains(text, strings.ToLower(each)) })
}

// shown returns the beginning of what a server said, with each password replaced. A password that begins before the end
// of what is shown is replaced as a whole, so no part of it stays.
func shown(said string, forms []string) string {
	if own, _, echoes := strings.Cut(said, arguments); echoes {
		said = own + arguments + " …"
	}
	var text strings.Builder
	hidden := 0 // where the last password ends
	for at := range min(len(said), failure.MaxLogged) {
		for _, form := range forms {
			if !strings.HasPrefix(said[at:], form) {
				continue
			}
			if at >= hidden {
				text.WriteString(redacted)
			}
			hidden = max(hidden, at+len(form))
		}
		if at >= hidden {
			text.WriteByte(said[at])
		}
	}
	if len(said) <= failure.MaxLogged {
		return text.String()
	}
	return strings.ToValidUTF8(text.String(), "") + "…"
}
