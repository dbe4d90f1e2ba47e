// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redisconn"
	"miracle.dev/scaledjob-operator/test/redistest"
)

const timeout = 30 * time.Second

func TestMain(m *testing.M) {
	redisconn.RedirectLogs(logr.Discard())
	goleak.VerifyTestMain(m)
}

// newReader returns a reader whose connections last until the test ends.
func newReader(t *testing.T) *queue.Reader {
	t.Helper()
	pool := redisconn.NewPool(logr.Discard())
	var running sync.WaitGroup
	running.Go(func() { _ = pool.Start(t.Context()) })
	t.Cleanup(running.Wait)
	return queue.NewReader(pool)
}

func TestReaderObservesTheLengthOfAList(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	reader := newReader(t)
	for key, length := range map[string]int{"missing": 0, "emails": 3, "a b\x00*\r\n": 1, strings.Repeat("k", 1024): 2} {
		for range length {
			g.Expect(server.Client().LPush(t.Context(), key, "x").Err()).To(Succeed())
		}
		source := queue.Source{Endpoint: redisconn.Endpoint{Address: server.Addr()}, Key: key}
		g.Eventually(reader.Observe).WithArguments(t.Context(), source).WithTimeout(timeout).Should(BeEquivalentTo(length))
	}
}

func TestReaderFailsOnOtherTypes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	g.Expect(server.Client().Set(t.Context(), "emails", "x", 0).Err()).To(Succeed())
	source := queue.Source{Endpoint: redisconn.Endpoint{Address: server.Addr()}, Key: "emails"}
	reader := newReader(t)
	g.Eventually(func() redisconn.Reason {
		_, err := reader.Observe(t.Context(), source)
		return redisconn.Classify(err).Reason
	}).WithTimeout(timeout).Should(Equal(redisconn.ReasonWrongType))
}

func TestReaderFailsOnAnswersThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		says   string
	}{
		"a negative length": {":-1\r\n", "negative"},
		"no Redis":          {"hello\r\n", "does not speak the Redis protocol"},
		"a huge string":     {"$2000000000\r\n", "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server := redistest.NewScripted(t, func(args []string) string {
				if args[0] == "llen" {
					return c.answer
				}
				return redistest.Usual
			})
			source := queue.Source{Endpoint: redisconn.Endpoint{Address: server.Addr()}, Key: "emails"}
			_, err := newReader(t).Observe(t.Context(), source)
			g.Expect(err).To(MatchError(ContainSubstring(c.says)))
		})
	}
}
