// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// How long it takes from a push to a tracked key until its ScaledJob is woken, alone and while another namespace floods the
// same database of the same server with 20,000 notifications a second.
func BenchmarkPushToATrackedKey(b *testing.B) {
	b.Run("alone", func(b *testing.B) { reactions(b, func(context.Context, *redis.Client) {}) })
	b.Run("next to a flood", func(b *testing.B) { reactions(b, manyPushes) })
}

func reactions(b *testing.B, others func(context.Context, *redis.Client)) {
	b.Helper()
	server := redistest.New(b, redistest.Options{})
	pool := connection.NewPool(connection.Options{})
	directory := topology.New(pool, logr.Discard())
	wakes, woken := make(chan coalesce.Wake, 1<<16), make(chan time.Time, 1<<16)
	w := New(Options{
		Pool: pool, Directory: directory, Recorder: newRecorded(), Log: logr.Discard(),
		Deliver: func(wake coalesce.Wake) { wakes <- wake },
	})
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = pool.Start(ctx) })
	running.Go(func() { _ = w.Start(ctx) })
	running.Go(func() { others(ctx, server.Client()) })
	quiet, noisy := ID{Namespace: "quiet", Name: "letters"}, ID{Namespace: "noisy", Name: "flood"}
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case wake := <-wakes:
				if wake.ID == quiet {
					woken <- time.Now()
				}
				w.Acknowledge(wake.ID)
			}
		}
	})
	endpoint := auth.Endpoint{Address: server.Addr()}
	w.Ensure(noisy, endpoint, AnySource, list("flood"))
	w.Ensure(quiet, endpoint, OnlyTracking, list("letters"))
	<-woken
	var taken []time.Duration
	for b.Loop() {
		<-time.After(50 * time.Millisecond) // A key is read every 25 ms at most.
		for len(woken) > 0 {
			<-woken
		}
		began := time.Now()
		if err := server.Client().LPush(ctx, "letters", "x").Err(); err != nil {
			b.Fatal(err)
		}
		taken = append(taken, (<-woken).Sub(began))
	}
	slices.Sort(taken)
	b.ReportMetric(float64(taken[len(taken)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(taken[len(taken)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(0, "ns/op")
}

// manyPushes pushes 20,000 messages a second.
func manyPushes(ctx context.Context, server *redis.Client) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_, _ = server.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for range 200 {
				pipe.LPush(ctx, "flood", "x")
			}
			pipe.LTrim(ctx, "flood", 0, 10)
			return nil
		})
	}
}
