// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// loss is what may go wrong with a create.
type loss int

const (
	// answerReset: carried out, but the connection breaks before the answer.
	answerReset loss = iota
	// answerTimeout: carried out, but a gateway answers that it took too long.
	answerTimeout
	// answerRetry: carried out, but a gateway asks to come again, which the
	// client library does by itself.
	answerRetry
	// requestReset: the connection breaks before the API server is reached.
	requestReset

	lossKinds // how many there are
)

// lossInterval is how many creates there are to one that goes wrong.
const lossInterval = 2

var errReset = errors.New("connection reset")

// losses has each kind of loss in turn befall the creates of Jobs, once enabled.
type losses struct {
	next http.RoundTripper

	mu      sync.Mutex
	enabled bool
	creates int
	counts  [lossKinds]int
}

// enable begins to lose.
func (l *losses) enable() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enabled = true
}

// seen is how often each kind of loss has happened.
func (l *losses) seen() [lossKinds]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// RoundTrip implements http.RoundTripper.
func (l *losses) RoundTrip(request *http.Request) (*http.Response, error) {
	kind, lost := l.draw(request)
	if lost && kind == requestReset {
		return nil, errReset
	}
	response, err := l.next.RoundTrip(request)
	if err != nil || !lost {
		return response, err
	}
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	switch kind {
	case answerReset:
		return nil, errReset
	case answerTimeout:
		return gatewayAnswer(request, http.StatusGatewayTimeout, nil), nil
	case answerRetry:
		return gatewayAnswer(request, http.StatusServiceUnavailable, http.Header{"Retry-After": {"0"}}), nil
	default:
		return nil, fmt.Errorf("no such loss: %d", kind)
	}
}

// draw says whether the request is a create that goes wrong, and how.
func (l *losses) draw(request *http.Request) (kind loss, lost bool) {
	if !createsJob(request) {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.enabled {
		return 0, false
	}
	l.creates++
	if l.creates%lossInterval != 0 {
		return 0, false
	}
	kind = loss(l.creates / lossInterval % int(lossKinds))
	l.counts[kind]++
	return kind, true
}

// createsJob says whether the request is to create a Job, and not only to try it.
func createsJob(request *http.Request) bool {
	return request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/jobs") &&
		!request.URL.Query().Has("dryRun")
}

func gatewayAnswer(request *http.Request, code int, header http.Header) *http.Response {
	return &http.Response{
		StatusCode: code, Header: header, Body: http.NoBody, Request: request,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
}
