// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package inject has requests to an API server go wrong, by rules: an [Injector] is the transport of a client, or of a
// proxy before the API server.
package inject

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
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
	// Match chooses the requests. Skip of them pass, and then one of Every is hit, the first one included: each if Every
	// is 0. Times is how many are hit at most, without a bound if it is 0.
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

// Answer answers a request. Before it is carried out, no answer and no error mean that it is.
type Answer func(*http.Request) (*http.Response, error)

var errReset = errors.New("connection reset")

// Reset breaks the connection.
func Reset(*http.Request) (*http.Response, error) { return nil, errReset }

// Status answers with a code, as a gateway does, and with these headers: names and values in turn.
func Status(code int, headers ...string) Answer {
	return func(request *http.Request) (*http.Response, error) {
		header := http.Header{}
		for i := 0; i+1 < len(headers); i += 2 {
			header.Set(headers[i], headers[i+1])
		}
		return &http.Response{
			StatusCode: code, Header: header, Body: http.NoBody, Request: request,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}, nil
	}
}

// OneOf answers in one way or another, by chance.
func OneOf(answers ...Answer) Answer {
	return func(request *http.Request) (*http.Response, error) { return answers[rand.IntN(len(answers))](request) }
}

// Delay has a request carried out only after this time, as an admission webhook does.
func Delay(delay time.Duration) Answer {
	return func(request *http.Request) (*http.Response, error) {
		select {
		case <-time.After(delay):
			return nil, nil
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
}

// expired is what an API server answers to a watch that is too old.
const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
	`"message":"too old resource version: 1 (2)","reason":"Expired","code":410}}`

// Expired says that a watch is too old to go on, so that its client lists all objects again. A watch that begins with
// all objects is carried out: client-go begins so after a watch of less than a second without an event.
func Expired(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Has("sendInitialEvents") {
		return nil, nil
	}
	response, err := Status(http.StatusOK, "Content-Type", "application/json")(request)
	if err == nil {
		response.Body = io.NopCloser(strings.NewReader(expired))
	}
	return response, err
}

// CreatesJob reports whether the request is to create a Job, and not only to try it.
func CreatesJob(request *http.Request) bool {
	return request.Method == http.MethodPost && path.Base(request.URL.Path) == "jobs" && !request.URL.Query().Has("dryRun")
}

// Watches reports whether the request is a watch.
func Watches(request *http.Request) bool { return request.URL.Query().Get("watch") != "" }

// WatchOf matches the watches of a resource.
func WatchOf(resource string) func(*http.Request) bool {
	return func(request *http.Request) bool { return Watches(request) && path.Base(request.URL.Path) == resource }
}

// held is a request that is kept back, and that its sender may give up.
type held struct {
	request *http.Request
	sender  context.Context
	answer  chan answer
}

type answer struct {
	response *http.Response
	err      error
}

// hold keeps a request back. It has been read to its end, as if it were with the API server already.
func (r *Rule) hold(request *http.Request) (*http.Response, error) {
	sender := request.Context()
	kept := &held{request: request.Clone(context.WithoutCancel(sender)), sender: sender, answer: make(chan answer)}
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		kept.request.Body = io.NopCloser(bytes.NewReader(body))
	}
	if !r.keep(kept) {
		return r.carryOut(kept.request)
	}
	select {
	case a := <-kept.answer:
		return a.response, a.err
	case <-sender.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		r.abandoned++
		return nil, sender.Err()
	}
}

// keep reports whether the request waits for the release, which may be over.
func (r *Rule) keep(kept *held) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.waiting = append(r.waiting, kept)
	}
	return !r.ended
}

// Held is how many requests are kept back.
func (r *Rule) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// Abandoned is how many requests were given up by their senders while they were kept back.
func (r *Rule) Abandoned() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.abandoned
}

// Release ends the rule, and has all requests carried out that are kept back. It returns when the API server has
// answered all of them.
func (r *Rule) Release() error {
	r.mu.Lock()
	released := r.waiting
	r.waiting, r.ended = nil, true
	r.mu.Unlock()
	var carrying errgroup.Group
	for _, kept := range released {
		carrying.Go(func() error {
			return kept.deliver(r.carryOut(kept.request))
		})
	}
	return carrying.Wait()
}

// deliver sends the answer back if somebody waits for it.
func (h *held) deliver(response *http.Response, err error) error {
	select {
	case h.answer <- answer{response, err}:
		return err
	case <-h.sender.Done():
	}
	if err != nil {
		return err
	}
	return response.Body.Close()
}
