// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// apiServer creates whatever it is asked for, and keeps the bodies.
type apiServer struct {
	mu     sync.Mutex
	bodies []string
}

func (s *apiServer) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, string(body))
	return Status(http.StatusCreated)(request)
}

// create sends a create, and returns the code of the answer, or the error.
func create(ctx context.Context, to http.RoundTripper, body string) any {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a/apis/batch/v1/namespaces/n/jobs", strings.NewReader(body))
	if err != nil {
		return err
	}
	response, err := to.RoundTrip(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	return response.StatusCode
}

func TestRules(t *testing.T) {
	t.Parallel()
	const carriedOut = http.StatusCreated
	busy := Status(http.StatusServiceUnavailable, "Retry-After", "1")
	for name, c := range map[string]struct {
		rule   *Rule
		codes  []any // of four creates
		bodies []string
		hits   int
	}{
		"counted":    {&Rule{}, []any{carriedOut, carriedOut, carriedOut, carriedOut}, []string{"1", "2", "3", "4"}, 4},
		"refused":    {&Rule{Answer: busy}, []any{503, 503, 503, 503}, nil, 4},
		"skip":       {&Rule{Answer: busy, Skip: 1, Every: 2}, []any{carriedOut, 503, carriedOut, 503}, []string{"1", "3"}, 2},
		"times":      {&Rule{Answer: busy, Times: 3}, []any{503, 503, 503, carriedOut}, []string{"4"}, 3},
		"after":      {&Rule{Answer: busy, When: After}, []any{503, 503, 503, 503}, []string{"1", "2", "3", "4"}, 4},
		"reset":      {&Rule{Answer: Reset, When: After, Skip: 3}, []any{carriedOut, carriedOut, carriedOut, errReset}, []string{"1", "2", "3", "4"}, 1},
		"one of one": {&Rule{Answer: OneOf(busy), Every: 3}, []any{503, carriedOut, carriedOut, 503}, []string{"2", "3"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, api := NewWithT(t), &apiServer{}
			injector := New(api)
			c.rule.Match = CreatesJob
			injector.Add(c.rule)
			var codes []any
			for _, body := range []string{"1", "2", "3", "4"} {
				codes = append(codes, create(t.Context(), injector, body))
			}
			g.Expect(codes).To(Equal(c.codes))
			g.Expect(api.bodies).To(Equal(c.bodies))
			g.Expect(c.rule.Hits()).To(Equal(c.hits))
		})
	}
}

func TestSeveralRules(t *testing.T) {
	t.Parallel()
	g, injector := NewWithT(t), New(&apiServer{})
	count := injector.Add(&Rule{Match: CreatesJob})
	first := injector.Add(&Rule{Match: CreatesJob, Answer: Status(429), Skip: 1, Every: 4})
	injector.Add(&Rule{Match: CreatesJob, Answer: Status(504), Skip: 3, Every: 4})
	injector.Add(&Rule{Match: WatchOf("jobs"), Answer: Status(410)})
	var codes []any
	for range 4 {
		codes = append(codes, create(t.Context(), injector, ""))
	}
	g.Expect(codes).To(Equal([]any{201, 429, 201, 504}))
	g.Expect(count.Hits()).To(Equal(4))
	first.End()
	g.Expect(create(t.Context(), injector, "")).To(Equal(201))
	g.Expect(create(t.Context(), injector, "")).To(Equal(201), "it would be the turn of the first rule")
}

// Two requests are held, and the sender of one gives up: both are carried out at the release, and not before.
func TestHold(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		api := &apiServer{}
		injector := New(api)
		rule := injector.Add(&Rule{Match: CreatesJob, When: Hold, Skip: 1, Answer: Status(504)})
		g.Expect(create(t.Context(), injector, "passes")).To(Equal(201))
		impatient, giveUp := context.WithCancel(t.Context())
		answers := make(chan any, 2)
		for _, ctx := range []context.Context{t.Context(), impatient} {
			go func() { answers <- create(ctx, injector, "held") }()
		}
		synctest.Wait()
		g.Expect(rule.Held()).To(Equal(2))
		giveUp()
		g.Expect(<-answers).To(MatchError(context.Canceled))
		g.Expect(rule.Abandoned()).To(Equal(1))
		g.Expect(api.bodies).To(ConsistOf("passes"))

		g.Expect(rule.Release()).To(Succeed())
		g.Expect(<-answers).To(Equal(504))
		g.Expect(api.bodies).To(ConsistOf("passes", "held", "held"))
		g.Expect(rule.Codes()).To(Equal([]int{201, 201}))
		g.Expect(rule.Held()).To(BeZero())
		g.Expect(create(t.Context(), injector, "later")).To(Equal(201), "none is held after the release")
	})
}

func TestDelay(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		injector, begun := New(&apiServer{}), time.Now()
		injector.Add(&Rule{Match: CreatesJob, Answer: Delay(time.Minute)})
		g.Expect(create(t.Context(), injector, "")).To(Equal(201))
		g.Expect(time.Since(begun)).To(Equal(time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Expect(create(ctx, injector, "")).To(MatchError(context.DeadlineExceeded))
	})
}
