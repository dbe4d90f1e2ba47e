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
	// toldBytes is how much of an error is told. Servers may say what they like, and it is logged.
	toldBytes = 4 << 10
	// knownPasswords is how many passwords of an endpoint are remembered: that in use, that which
	// may take its place, and those before of which connections may be left.
	knownPasswords = 4
)

// spellings are how a password may appear in a text: as it is, with its line ends made spaces, as
// servers do, and quoted once or twice: by the server, and by what tells of its words.
func spellings(password string) []string {
	if password == "" {
		return nil
	}
	found := []string{password, strings.NewReplacer("\r", " ", "\n", " ").Replace(password)}
	for range 2 {
		for _, text := range slices.Clone(found) {
			for _, quoted := range []string{strconv.Quote(text), strconv.QuoteToASCII(text), asJSON(text, true), asJSON(text, false)} {
				found = append(found, quoted[1:len(quoted)-1])
			}
		}
		slices.Sort(found)
		found = slices.Compact(found)
	}
	return found
}

// asJSON is a text as a string of JSON, as Go writes it for web pages or for others.
func asJSON(text string, forHTML bool) string {
	var written strings.Builder
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(forHTML)
	if err := encoder.Encode(text); err != nil {
		return strconv.Quote(text)
	}
	return strings.TrimSuffix(written.String(), "\n")
}

// redact replaces each password, and what is left of one that was cut off at its end.
func redact(text string, spelled []string) string {
	if len(spelled) == 0 {
		return text
	}
	var clean strings.Builder
	for text != "" {
		if found := beginning(text, spelled); found > 0 {
			clean.WriteString(redacted)
			text = text[found:]
			continue
		}
		clean.WriteByte(text[0])
		text = text[1:]
	}
	return clean.String()
}

// beginning is how many bytes of a password the text begins with, if they give it away.
func beginning(text string, spelled []string) int {
	longest := 0
	for _, secret := range spelled {
		if n := commonPrefix(text, secret); n >= min(len(secret), tellingBytes) {
			longest = max(longest, n)
		}
	}
	return longest
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

// redactedError is an error whose text held a password, or was too long. The causes that hold it
// too are gone.
type redactedError struct {
	text string
	// is holds those of its causes that others look for, none of which holds anything.
	is []error
}

// Error returns the text, without the password.
func (e *redactedError) Error() string { return e.text }

// Unwrap returns the causes.
func (e *redactedError) Unwrap() []error { return e.is }

// redactError returns an error without the passwords, cut off if it is long. It keeps its class.
func redactError(err *rediserror.Error, spelled []string) *rediserror.Error {
	if err == nil {
		return nil
	}
	text := err.Err.Error()
	clean := redact(text[:min(len(text), toldBytes)], spelled)
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
	select {
	case <-p.gone: // That may have been before.
		p.passwords.forget(p)
	default:
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
