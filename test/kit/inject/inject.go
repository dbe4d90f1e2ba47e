// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package inject has requests to an API server go wrong, by rules: an [Injector] is the transport of a client, or of a
// proxy before the API server.
package inject

import (
	"net/http"
	"slices"
	"sync"
)

// When says when a rule changes what becomes of a request.
type When int

const (
	// Before answers the request instead of the API server, which does not carry it out.
	Before When = iota
	// After answers the request in other words than the API server, which has carried it out.
	After
	// Hold keeps the request back until the rule is released. It is carried out then, whatever has become of its sender.
	// An answer of the rule replaces that of the API server.
	Hold
)

// Rule says what becomes of some requests. Its methods are safe for concurrent use.
type Rule struct {
	// Match chooses the requests. Skip of them pass, and then one of Every is hit, the first one included: each if Every is
	// 0. Times is how many are hit at most, without a bound if it is 0.
	Match              func(*http.Request) bool
	Skip, Every, Times int
	When               When
	// Answer answers what is hit. Without one, a rule counts requests, or holds them.
	Answer Answer

	next http.RoundTripper

	mu            sync.Mutex
	ended         bool
	matched, hits int
	codes         []int // that the API server answered
	waiting       []*held
	abandoned     int
}

// Injector is a transport with rules. A request that several rules hit is treated by the first of them.
type Injector struct {
	next http.RoundTripper

	mu    sync.Mutex
	rules []*Rule
}

// New returns an injector without rules.
func New(next http.RoundTripper) *Injector { return &Injector{next: next} }

// Add adds a rule, and returns it.
func (i *Injector) Add(rule *Rule) *Rule {
	i.mu.Lock()
	defer i.mu.Unlock()
	rule.next = i.next
	i.rules = append(i.rules, rule)
	return rule
}

// RoundTrip implements http.RoundTripper.
func (i *Injector) RoundTrip(request *http.Request) (*http.Response, error) {
	i.mu.Lock()
	rules := slices.Clone(i.rules)
	i.mu.Unlock()
	var first *Rule
	for _, rule := range rules {
		if rule.hit(request) && first == nil && (rule.Answer != nil || rule.When == Hold) {
			first = rule
		}
	}
	if first == nil {
		return i.next.RoundTrip(request)
	}
	return first.treat(request)
}

// hit counts a request that matches, and reports whether it is hit.
func (r *Rule) hit(request *http.Request) bool {
	if !r.Match(request) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.matched++
	after := r.matched - r.Skip - 1
	if r.ended || after < 0 || after%max(1, r.Every) != 0 || (r.Times > 0 && r.hits >= r.Times) {
		return false
	}
	r.hits++
	return true
}

func (r *Rule) treat(request *http.Request) (*http.Response, error) {
	switch r.When {
	case Hold:
		return r.hold(request)
	case After:
		return r.carryOut(request)
	default:
		response, err := r.Answer(request)
		if response == nil && err == nil {
			return r.next.RoundTrip(request)
		}
		return response, err
	}
}

// carryOut sends the request on, and replaces the answer if the rule has one.
func (r *Rule) carryOut(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.codes = append(r.codes, response.StatusCode)
	r.mu.Unlock()
	if r.Answer == nil {
		return response, nil
	}
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	return r.Answer(request)
}

// Hits is how many requests were hit.
func (r *Rule) Hits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hits
}

// Codes are the codes that the API server answered to requests that were hit, and carried out.
func (r *Rule) Codes() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.codes)
}

// End has the rule hit no more requests.
func (r *Rule) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}
