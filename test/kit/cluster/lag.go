// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Lag delays what clients hear of changes, as a busy API server or network
// does. Give it to a client configuration:
//
//	lag := cluster.NewLag("jobs")
//	config.Wrap(lag.Wrap)
//
// Set it once the informers have synced: the initial objects of an informer
// arrive by watch as well, and a cache that is still empty is not stale.
type Lag struct {
	resources map[string]bool

	mu      sync.Mutex
	delay   time.Duration
	ended   int           // calls of End
	changed chan struct{} // closed by the next Set or End
}

// NewLag returns a Lag of no duration for watches of the given resources, as
// in URLs: "jobs". Other requests are never delayed.
func NewLag(resources ...string) *Lag {
	lag := &Lag{resources: map[string]bool{}, changed: make(chan struct{})}
	for _, resource := range resources {
		lag.resources[resource] = true
	}
	return lag
}

// Set changes the delay of every byte that is not delivered yet. Zero delivers
// them now. The order of the bytes of a watch never changes.
func (l *Lag) Set(delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = delay
	close(l.changed)
	l.changed = make(chan struct{})
}

// End ends the watches of now, between two events. What they have not delivered
// yet is lost.
func (l *Lag) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
	close(l.changed)
	l.changed = make(chan struct{})
}

// current returns the delay, how often watches were ended, and a channel that is
// closed when either changes.
func (l *Lag) current() (delay time.Duration, ended int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay, l.ended, l.changed
}

// Wrap returns a transport that delays the watches that come over next.
func (l *Lag) Wrap(next http.RoundTripper) http.RoundTripper {
	return &laggingTransport{lag: l, next: next}
}

type laggingTransport struct {
	lag  *Lag
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *laggingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil && t.lag.resources[watchedResource(request.URL)] {
		response.Body = newLaggingBody(t.lag, response.Body)
	}
	return response, err
}

// watchedResource returns the resource in the URL of a watch, "" for any other
// request.
func watchedResource(u *url.URL) string {
	if watch, err := strconv.ParseBool(u.Query().Get("watch")); err != nil || !watch {
		return ""
	}
	// api/v1/… or apis/<group>/<version>/…, then either <resource> or
	// namespaces/<namespace>/<resource>.
	segments := strings.Split(strings.Trim(u.Path, "/"), "/")
	prefix := 2
	if segments[0] == "apis" {
		prefix = 3
	}
	if len(segments) >= prefix+3 && segments[prefix] == "namespaces" {
		prefix += 2
	}
	if len(segments) <= prefix {
		return ""
	}
	return segments[prefix]
}

// laggingBody hands out what it reads from body once that is as old as the lag
// is long. It reads ahead, without bound: else what waits here would fill the
// window of the HTTP/2 connection and hold up its other streams.
type laggingBody struct {
	lag    *Lag
	body   io.ReadCloser
	close  func() error
	closed chan struct{}

	began  int  // calls of End before this watch began
	inside bool // whether a part of an event is delivered, and the rest is not

	mu       sync.Mutex
	chunks   []chunk
	appended chan struct{} // holds a value when chunks has grown
}

// chunk is what one Read of the body returned, and when.
type chunk struct {
	data    []byte
	err     error
	arrived time.Time
}

func newLaggingBody(lag *Lag, body io.ReadCloser) *laggingBody {
	_, ended, _ := lag.current()
	b := &laggingBody{lag: lag, body: body, began: ended, closed: make(chan struct{}), appended: make(chan struct{}, 1)}
	b.close = sync.OnceValue(func() error {
		close(b.closed)
		return body.Close()
	})
	go b.readAhead()
	return b
}

// readAhead reads the body until its first error, which Close provokes.
func (b *laggingBody) readAhead() {
	const size = 32 << 10
	for {
		buffer := make([]byte, size)
		n, err := b.body.Read(buffer)
		b.mu.Lock()
		b.chunks = append(b.chunks, chunk{data: buffer[:n], err: err, arrived: time.Now()})
		b.mu.Unlock()
		select {
		case b.appended <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader.
func (b *laggingBody) Read(p []byte) (int, error) {
	if err := b.awaitDue(); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	first := &b.chunks[0]
	data := first.data
	if end := bytes.IndexByte(data, '\n') + 1; end > 0 && b.isEnded() {
		data = data[:end]
	}
	n := copy(p, data)
	first.data = first.data[n:]
	if n > 0 {
		b.inside = p[n-1] != '\n' // Each event is a line.
	}
	if len(first.data) > 0 {
		return n, nil
	}
	if first.err != nil {
		return n, first.err // the last chunk, kept to be returned again
	}
	b.chunks = b.chunks[1:]
	return n, nil
}

func (b *laggingBody) isEnded() bool {
	_, ended, _ := b.lag.current()
	return ended != b.began
}

// awaitDue returns when the first chunk is due, or with an error after End or
// Close.
func (b *laggingBody) awaitDue() error {
	for {
		delay, ended, changed := b.lag.current()
		if ended != b.began && !b.inside {
			return io.EOF
		}
		var due <-chan time.Time // never, while there is no chunk
		if arrived, found := b.firstArrival(); found {
			left := time.Until(arrived.Add(delay))
			if left <= 0 {
				return nil
			}
			due = time.After(left)
		}
		select {
		case <-due:
		case <-changed:
		case <-b.appended:
		case <-b.closed:
			return http.ErrBodyReadAfterClose
		}
	}
}

func (b *laggingBody) firstArrival() (arrived time.Time, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.chunks) == 0 {
		return time.Time{}, false
	}
	return b.chunks[0].arrived, true
}

// Close implements io.Closer.
func (b *laggingBody) Close() error { return b.close() }
