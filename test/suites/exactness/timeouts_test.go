// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// timeouts has creates of Jobs carried out, if told so, but answered as by a
// gateway for which they took too long. It strikes those that are under way at
// one moment: what is sent again, or sent later, is spared however long that takes.
type timeouts struct {
	next http.RoundTripper

	mu sync.Mutex
	// passing is how many creates pass before the first is struck, and missing is
	// how many are yet to come of those that are struck together.
	passing, missing int
	// together is closed when all of these are under way.
	together chan struct{}
	names    []string
}

// strike lets so many creates pass, and strikes as many at once as are said.
func (t *timeouts) strike(passing, atOnce int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passing, t.missing, t.together, t.names = passing, atOnce, make(chan struct{}), nil
}

// made are the names of the Jobs that were created by creates that were struck.
func (t *timeouts) made() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.names)
}

// RoundTrip implements http.RoundTripper.
func (t *timeouts) RoundTrip(request *http.Request) (*http.Response, error) {
	together, struck := t.draw(request)
	if !struck {
		return t.next.RoundTrip(request)
	}
	select {
	case <-together:
	case <-request.Context().Done():
		t.relent()
		return nil, request.Context().Err()
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if err := t.note(response); err != nil {
		return nil, err
	}
	return gatewayAnswer(request, http.StatusGatewayTimeout, nil), nil
}

// draw says whether the request is a create that is struck. None of these is
// answered before they are together, or else the sender would send no others.
func (t *timeouts) draw(request *http.Request) (together <-chan struct{}, struck bool) {
	if !createsJob(request) {
		return nil, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.missing == 0 {
		return nil, false
	}
	if t.passing > 0 {
		t.passing--
		return nil, false
	}
	t.missing--
	if t.missing == 0 {
		close(t.together)
	}
	return t.together, true
}

// relent strikes no more creates than it has: a sender has given up before they
// were together.
func (t *timeouts) relent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.missing > 0 {
		t.missing = 0
		close(t.together)
	}
}

// note keeps the name of the Job that the API server says it has created.
func (t *timeouts) note(response *http.Response) error {
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusCreated {
		return nil
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return err
	}
	job, isJob := object.(*batchv1.Job)
	if !isJob {
		return fmt.Errorf("the API server has created a %T", object)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names = append(t.names, job.Name)
	return nil
}
