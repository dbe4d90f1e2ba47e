// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe reads the messages of a ScaledJob from Redis once, with the code by which the operator reads them and
// with the permissions of the user.
//
//	access.go   how to sign in to Redis, from the Secrets
//	observe.go  the messages
package observe

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/secrets"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// timeout is how long a read may take altogether.
const timeout = 10 * time.Second

// Queues returns the messages of each queue of the ScaledJob, in the order of the spec. If they can't be read, why says
// so for people, without data of the server or of Secrets.
func Queues(ctx context.Context, api client.Reader, sj *scaledjobv1.ScaledJob) (queues []scaling.Queue, why string) {
	resolved := scaledjob.Resolve(sj)
	if resolved.Err != nil {
		return nil, failure.Classify(resolved.Err).Message
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	// The spec may ask for a connection that does not verify the server. A flag of the operator forbids it only there.
	pool := connection.NewPool(connection.Options{Secrets: ofUser{secrets.NewReader(api)}, AllowInsecureTLS: true, Log: logr.Discard()})
	directory := topology.New(pool, logr.Discard())
	running.Go(func() { _ = pool.Start(ctx) })
	running.Go(func() { _ = directory.Start(ctx) })
	source := resolved.Source
	keys := make([]string, len(source.Queues))
	for i := range source.Queues {
		keys[i] = source.Queues[i].Key
	}
	if err := directory.Claim(sj.Namespace, sj.Name, source.Endpoint, source.Database, keys...); err != nil {
		return nil, failure.Classify(err).Message
	}
	counts, err := read(ctx, queue.NewReader(pool, directory), directory, source)
	if err != nil {
		return nil, failure.Classify(err).Message
	}
	return resolved.Contents(counts), ""
}

// read reads the queues. The servers of a deployment have to be found first.
func read(ctx context.Context, reader *queue.Reader, directory *topology.Directory, source queue.Source) ([]queue.Count, error) {
	until := time.Now().Add(timeout / 2)
	for {
		directory.Refresh(ctx, source.Endpoint)
		counts, err := reader.Observe(ctx, source)
		if err == nil || source.Endpoint.Mode == auth.ModeStandalone || time.Now().After(until) || ctx.Err() != nil {
			return counts, err
		}
	}
}
