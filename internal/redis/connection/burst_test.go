// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// BenchmarkBurst measures how long it takes to read 40 ScaledJobs of one server at the same time, by how many connections there may
// be: with one list each, which share round trips, and with two.
func BenchmarkBurst(b *testing.B) {
	server := redistest.New(b, redistest.Options{})
	for _, lists := range []int{1, 2} {
		for _, connections := range []int{connection.DefaultConnections, 34} {
			b.Run(fmt.Sprintf("lists=%d/connections=%d", lists, connections), func(b *testing.B) {
				pool := connection.NewPool(connection.Options{Connections: connections})
				ctx, stop := context.WithCancel(b.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = pool.Start(ctx) })
				defer running.Wait()
				defer stop()
				reader := queue.NewReader(pool, topology.New(pool, logr.Discard()))
				burst(b, reader, server.Addr(), lists) // It makes the connections.
				for b.Loop() {
					burst(b, reader, server.Addr(), lists)
				}
			})
		}
	}
}

func burst(b *testing.B, reader *queue.Reader, address string, lists int) {
	b.Helper()
	var reads sync.WaitGroup
	for i := range 40 {
		source := queue.Source{Endpoint: auth.Endpoint{Address: address}}
		for list := range lists {
			source.Queues = append(source.Queues, queue.Queue{Key: strconv.Itoa(i) + "-" + strconv.Itoa(list), Type: queue.List})
		}
		reads.Go(func() {
			_, err := reader.Observe(b.Context(), source)
			for errors.Is(err, failure.ErrBusy) { // The machine is busy.
				_, err = reader.Observe(b.Context(), source)
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	reads.Wait()
}
