// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// hanging is an API server that answers nothing about one namespace.
type hanging struct {
	path string

	mu                 sync.Mutex
	waiting, most, all int
}

func (h *hanging) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Path != h.path {
		return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody}, nil
	}
	h.count(1)
	defer h.count(-1)
	<-request.Context().Done()
	return nil, request.Context().Err()
}

func (h *hanging) count(more int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting += more
	h.most, h.all = max(h.most, h.waiting), h.all+max(more, 0)
}

const eventsOf = "/apis/events.k8s.io/v1/namespaces/"

// send sends an event and returns the status code; 0 after an error.
func send(ctx context.Context, to http.RoundTripper, path string) int {
	response, err := to.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodPost, path, nil))
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func TestEventsThatHangHoldUpNobodyElse(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		server := &hanging{path: eventsOf + "hostile/events"}
		few := LimitEvents(server)
		begun := time.Now()
		var sending sync.WaitGroup
		codes := make([]int, 100)
		for i := range codes {
			sending.Go(func() { codes[i] = send(t.Context(), few, server.path) })
		}
		synctest.Wait()

		g.Expect(send(t.Context(), few, eventsOf+"neighbour/events")).To(Equal(http.StatusCreated))
		g.Expect(send(t.Context(), few, "/apis/batch/v1/namespaces/hostile/jobs")).To(Equal(http.StatusCreated))
		g.Expect(time.Since(begun)).To(BeZero())

		sending.Wait()
		g.Expect(server.most).To(Equal(eventsEach))
		g.Expect(time.Since(begun)).To(BeNumerically("<=", eventWait+eventTimeout))
		g.Expect(codes).To(ContainElement(http.StatusTooManyRequests), "events that were dropped")

		// Later events do not wait for the timeout again.
		begun = time.Now()
		g.Expect(send(t.Context(), few, server.path)).To(Equal(http.StatusTooManyRequests))
		g.Expect(time.Since(begun)).To(BeZero())
		time.Sleep(eventPause)
		server.path = "healed"
		g.Expect(send(t.Context(), few, eventsOf+"hostile/events")).To(Equal(http.StatusCreated))
		g.Expect(send(t.Context(), few, eventsOf+"neighbour/events")).To(Equal(http.StatusCreated))
		g.Expect(few.(*limitEvents).of).To(HaveLen(1), "of the last event only")
		g.Expect(few.(*limitEvents).all).To(BeEmpty())
	})
}
