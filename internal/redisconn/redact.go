// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"miracle.dev/scaledjob-operator/internal/rediserror"
)

const (
	// redacted stands for what was a password.
	redacted = "[redacted]"
	// tellingBytes is how much of the beginning of a password gives it away: servers cut off what
	// they repeat.
	tellingBytes = 6
	// knownPasswords is how many passwords of an endpoint are remembered: that in use, that which
	// may take its place, and those before of which connections may be left.
	knownPasswords = 4
)

// spellings are how a password may appear in a text: as it is, with its line ends made spaces, as
// servers do, and escaped as in Go and JSON.
func spellings(password string) []string {
	if password == "" {
		return nil
	}
	var found []string
	for _, text := range []string{password, strings.NewReplacer("\r", " ", "\n", " ").Replace(password)} {
		asJSON, err := json.Marshal(text)
		if err != nil {
			asJSON = []byte(strconv.Quote(text))
		}
		for _, quoted := range []string{strconv.Quote(text), strconv.QuoteToASCII(text), string(asJSON)} {
			found = append(found, text, quoted[1:len(quoted)-1])
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// redact replaces each password, and what is left of one that was cut off at its end.
func redact(text string, spelled []string) string {
	for _, secret := range spelled {
		text = redactOne(text, secret)
	}
	return text
}

func redactOne(text, secret string) string {
	beginning := secret[:min(len(secret), tellingBytes)]
	var clean strings.Builder
	for {
		at := strings.Index(text, beginning)
		if at < 0 {
			clean.WriteString(text)
			return clean.String()
		}
		clean.WriteString(text[:at])
		clean.WriteString(redacted)
		text = text[at+commonPrefix(text[at:], secret):]
	}
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// reply is an error reply of a server that held a password.
type reply string

// Error returns the words of the server, without the password.
func (r reply) Error() string { return string(r) }

// RedisError makes it an error reply for the client library.
func (reply) RedisError() { /* a mark */ }

// redactedError is an error whose text held a password. The causes that hold it too are gone.
type redactedError struct {
	text string
	// is holds those of its causes that others look for, none of which holds anything.
	is []error
}

// Error returns the text, without the password.
func (e *redactedError) Error() string { return e.text }

// Unwrap returns the causes.
func (e *redactedError) Unwrap() []error { return e.is }

// redactError returns an error without the passwords. It keeps its class.
func redactError(err *rediserror.Error, spelled []string) *rediserror.Error {
	if err == nil || len(spelled) == 0 {
		return err
	}
	text := err.Err.Error()
	clean := redact(text, spelled)
	if clean == text {
		return err
	}
	without := &redactedError{text: clean}
	if rediserror.IsReply(err.Err) {
		without.is = append(without.is, reply(clean))
	}
	for _, cause := range []error{rediserror.ErrBusy, rediserror.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err.Err, cause) {
			without.is = append(without.is, cause)
		}
	}
	return &rediserror.Error{Reason: err.Reason, Message: err.Message, Err: without}
}

// passwords are those in use, for what says nothing about whose it is. It is safe for concurrent
// use.
type passwords struct {
	mu     sync.Mutex
	ofPeer map[*peer][]string
}

// set notes how the passwords of a peer are spelled.
func (p *passwords) set(of *peer, spelled []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ofPeer[of] = spelled
}

func (p *passwords) forget(of *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ofPeer, of)
}

// redact replaces all of them in a text.
func (p *passwords) redact(text string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, spelled := range p.ofPeer {
		text = redact(text, spelled)
	}
	return text
}

// load is that of the keyring. What it found is not told by errors of the peer from then on.
func (p *peer) load(ctx context.Context) (*access, error) {
	loaded, err := p.keyring.load(ctx, p.endpoint)
	if err != nil || loaded.password == "" {
		return loaded, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.known, loaded.password) {
		p.known = append(p.known, loaded.password)
		p.known = p.known[max(0, len(p.known)-knownPasswords):]
		p.spelled = nil
		for _, each := range p.known {
			p.spelled = append(p.spelled, spellings(each)...)
		}
		p.passwords.set(p, p.spelled)
	}
	return loaded, nil
}

// clean returns a cause without the passwords of the peer.
func (p *peer) clean(cause *rediserror.Error) *rediserror.Error {
	p.mu.Lock()
	spelled := p.spelled
	p.mu.Unlock()
	return redactError(cause, spelled)
}
