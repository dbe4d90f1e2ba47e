// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// Redis 6.2 does not say how far a group lags behind, so the entries are counted.
func TestRepliesOfRedis62(t *testing.T) {
	t.Parallel()
	said := redistest.Redis62()
	for protocol, hello := range map[string]string{"resp3": said["resp3 hello 3"], "resp2": said["resp3 helo 3"]} {
		server := redistest.NewScripted(t, func(args []string) string {
			command := strings.Join(args, " ")
			switch args[0] {
			case "hello":
				return hello
			case "zcount": // The score is that of now.
				command = "zcount sorted -inf 2"
			case "zrange":
				command = "zrange sorted (2 +inf byscore limit 0 1 withscores"
			}
			// Some replies are the same in both protocols, and there are no transactions.
			return cmp.Or(said[protocol+" "+command], said["resp3 "+command], said["resp3 helo 3"])
		})
		for name, c := range map[string]struct {
			queue queue.Queue
			is    queue.Count
		}{
			"a list":        {waiting("emails"), queue.Count{Waiting: 3}},
			"no list":       {waiting("none"), queue.Count{}},
			"a set":         {ofType("set", queue.Set), queue.Count{Waiting: 2}},
			"a hash":        {ofType("hash", queue.Hash), queue.Count{Waiting: 1}},
			"a sorted set":  {ofType("sorted", queue.SortedSet), queue.Count{Waiting: 3}},
			"members due":   {queue.Queue{Key: "sorted", Type: queue.SortedSet, Window: queue.Due}, queue.Count{Waiting: 2, NextDue: time.Unix(4_000_000_000, 0)}},
			"a stream":      {ofType("stream", queue.Stream), queue.Count{Waiting: 3}},
			"a group":       {queue.Queue{Key: "stream", Type: queue.Stream, Group: "workers"}, queue.Count{Waiting: 2, InProgress: 1}},
			"a missing one": {queue.Queue{Key: "stream", Type: queue.Stream, Group: "strangers"}, queue.Count{Waiting: 1, GroupMissing: true}},
			"of no stream":  {queue.Queue{Key: "none", Type: queue.Stream, Group: "workers"}, queue.Count{}},
		} {
			t.Run(protocol+", "+name, func(t *testing.T) {
				t.Parallel()
				source := queue.Source{Endpoint: auth.Endpoint{Address: server.Addr()}, Queues: []queue.Queue{c.queue}, CountLimit: countLimit}
				counts, err := newReader(t).Observe(t.Context(), source)
				g := NewWithT(t)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(counts).To(HaveLen(1))
				g.Expect(counts[0].NextDue.Equal(c.is.NextDue)).To(BeTrue())
				counts[0].NextDue, c.is.NextDue = time.Time{}, time.Time{}
				g.Expect(numbers(counts)).To(Equal([]queue.Count{c.is}))
			})
		}
	}
}
