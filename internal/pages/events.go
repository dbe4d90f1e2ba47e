// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// eventsEach is how many events about one namespace are sent at the same time, and eventsAtOnce how many about all. An
	// admission webhook may make each of them slow, and the API server handles a limited number of requests of the
	// operator at a time, of which creates of Jobs and renewals of the Lease are some.
	eventsEach   = 2
	eventsAtOnce = 64
	// eventWait is how long an event waits to be sent. Then it is dropped.
	eventWait = 10 * time.Second
	// eventTimeout is the timeout of a request that sends an event.
	eventTimeout = 5 * time.Second
	// eventPause is how long no event about a namespace is sent after a timeout. client-go repeats the events of all
	// namespaces one after the other from time to time, and would wait for each.
	eventPause = time.Minute
)

// LimitEvents is a transport that sends few events at the same time, and drops those that take too long. It does not
// change other requests.
func LimitEvents(next http.RoundTripper) http.RoundTripper {
	return &limitEvents{next: next, all: make(chan struct{}, eventsAtOnce), of: map[string]*eventSlots{}}
}

// limitEvents sends events.
type limitEvents struct {
	next http.RoundTripper
	all  chan struct{}

	mu sync.Mutex
	of map[string]*eventSlots
}

// eventSlots are the slots for events about one namespace. users is the number of requests that hold or wait for one.
// No event is sent before resume.
type eventSlots struct {
	taken  chan struct{}
	users  int
	resume time.Time
}

// RoundTrip implements http.RoundTripper.
func (f *limitEvents) RoundTrip(request *http.Request) (*http.Response, error) {
	namespace, isEvent := eventNamespace(request)
	if !isEvent {
		return f.next.RoundTrip(request)
	}
	giveBack := f.take(request.Context(), namespace)
	if giveBack == nil {
		return dropped(request)
	}
	defer giveBack()
	ctx, cancel := context.WithTimeout(request.Context(), eventTimeout)
	defer cancel()
	response, err := f.send(request.WithContext(ctx))
	if err != nil && ctx.Err() != nil && request.Context().Err() == nil {
		f.pause(namespace)
		return dropped(request)
	}
	return response, err
}

// send sends an event, and reads the answer, because that ends with the context of the request.
func (f *limitEvents) send(request *http.Request) (*http.Response, error) {
	response, err := f.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// eventNamespace returns the namespace of the event that the request writes.
func eventNamespace(request *http.Request) (namespace string, isEvent bool) {
	rest, isEvent := strings.CutPrefix(request.URL.Path, "/apis/events.k8s.io/v1/namespaces/")
	if !isEvent || request.Method != http.MethodPost && request.Method != http.MethodPatch {
		return "", false
	}
	namespace, rest, _ = strings.Cut(rest, "/")
	return namespace, rest == "events" || strings.HasPrefix(rest, "events/")
}

// take waits for a slot and returns how to give it back; nil if there was none for long.
func (f *limitEvents) take(ctx context.Context, namespace string) (giveBack func()) {
	ctx, cancel := context.WithTimeout(ctx, eventWait)
	defer cancel()
	own := f.join(namespace)
	if own == nil {
		return nil
	}
	select {
	case own.taken <- struct{}{}:
	case <-ctx.Done():
		f.leave(namespace)
		return nil
	}
	select {
	case f.all <- struct{}{}:
	case <-ctx.Done():
		<-own.taken
		f.leave(namespace)
		return nil
	}
	return func() {
		<-f.all
		<-own.taken
		f.leave(namespace)
	}
}

// join returns the slots for events about a namespace; nil while none is sent.
func (f *limitEvents) join(namespace string) *eventSlots {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.of, func(_ string, of *eventSlots) bool { return of.users == 0 && !of.pauses() })
	if f.of[namespace] == nil {
		f.of[namespace] = &eventSlots{taken: make(chan struct{}, eventsEach)}
	}
	if f.of[namespace].pauses() {
		return nil
	}
	f.of[namespace].users++
	return f.of[namespace]
}

func (f *limitEvents) leave(namespace string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[namespace].users--
}

// pause sends no event about a namespace for a while. Its caller holds a slot.
func (f *limitEvents) pause(namespace string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[namespace].resume = time.Now().Add(eventPause)
}

func (p *eventSlots) pauses() bool { return time.Now().Before(p.resume) }

// dropped answers an event that is not sent. After an error of another kind client-go would keep the event, and try
// again for minutes.
func dropped(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
	status := apierrors.NewTooManyRequestsError("sending events about the namespace takes too long; see its admission webhooks for events").Status()
	status.Kind, status.APIVersion = "Status", "v1"
	body, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encoding a status: %w", err)
	}
	return &http.Response{
		StatusCode: http.StatusTooManyRequests, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}
