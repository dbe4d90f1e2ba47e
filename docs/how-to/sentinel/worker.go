// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command worker processes one entry of the stream STREAM for the consumer group GROUP, and ends. The sentinels
// SENTINELS (host:port, separated by commas) name the master MASTER. JOB is the name of its Job, and of the consumer.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	lease         = 10 * time.Minute // longer than a Job may run: activeDeadlineSeconds of the Job
	mostTries     = 3
	messageFailed = 65  // the exit code for which Kubernetes does not try again
	stopped       = 143 // the exit code of a process that SIGTERM ends
)

// work is the work: replace it, and return when the context is done. Here it sleeps for as long as the entry says.
func work(ctx context.Context, values map[string]any) error {
	text := fmt.Sprint(values["sleep"])
	fmt.Println("processing", text)
	duration, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}

func main() { os.Exit(run()) }

func run() int {
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	client, err := connect()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	w := &worker{redis: client, stream: os.Getenv("STREAM"), group: os.Getenv("GROUP"), job: os.Getenv("JOB")}
	code, err := w.run(stop)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// connect returns a client that follows the master. With a file CA, the servers and the sentinels use TLS.
func connect() (*redis.Client, error) {
	options := &redis.FailoverOptions{
		MasterName: os.Getenv("MASTER"), SentinelAddrs: strings.Split(os.Getenv("SENTINELS"), ","),
		Username: os.Getenv("REDIS_USERNAME"), Password: os.Getenv("REDIS_PASSWORD"),
		SentinelUsername: os.Getenv("SENTINEL_USERNAME"), SentinelPassword: os.Getenv("SENTINEL_PASSWORD"),
		// A second try after a lost answer would read a second entry. After an error, the Job starts the worker again.
		MaxRetries: -1,
	}
	if file := os.Getenv("CA"); file != "" {
		certificates, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		options.TLSConfig = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: os.Getenv("TLS_SERVER_NAME")}
		options.TLSConfig.RootCAs.AppendCertsFromPEM(certificates)
	}
	return redis.NewFailoverClient(options), nil
}

type worker struct {
	redis              *redis.Client
	stream, group, job string
}

// run processes one entry, and returns the exit code.
func (w *worker) run(stop context.Context) (code int, err error) {
	ctx := context.WithoutCancel(stop) // SIGTERM interrupts the work only
	err = w.redis.XGroupCreateMkStream(ctx, w.stream, w.group, "0").Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") { // the group exists
		return 0, err
	}
	for stop.Err() == nil {
		entries, err := w.take(ctx)
		if err != nil {
			return 0, err
		}
		if len(entries) > 0 {
			return w.process(stop, entries[0])
		}
		pending, err := w.redis.XPending(ctx, w.stream, w.group).Result()
		if err != nil {
			return 0, err
		}
		if pending.Count == 0 {
			return 0, w.end(ctx, "")
		}
		// A worker may have died: wait until its entry can be taken over.
	}
	return stopped, nil
}

// take returns the entry that this Job has already, one whose worker died, or the next one. It returns none if there
// was none for two seconds.
func (w *worker) take(ctx context.Context) ([]redis.XMessage, error) {
	entries, err := w.read(ctx, "0", -1)
	if len(entries) > 0 || err != nil {
		return entries, err
	}
	entries, _, err = w.redis.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: w.stream, Group: w.group, Consumer: w.job, MinIdle: lease, Start: "0", Count: 1,
	}).Result()
	if len(entries) > 0 || err != nil {
		return entries, err
	}
	return w.read(ctx, ">", 2*time.Second)
}

func (w *worker) read(ctx context.Context, after string, block time.Duration) ([]redis.XMessage, error) {
	streams, err := w.redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: w.group, Consumer: w.job, Streams: []string{w.stream, after}, Count: 1, Block: block,
	}).Result()
	if errors.Is(err, redis.Nil) || err == nil && len(streams) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return streams[0].Messages, nil
}

// process processes an entry, and returns the exit code.
func (w *worker) process(stop context.Context, entry redis.XMessage) (code int, err error) {
	ctx := context.WithoutCancel(stop)
	deliveries, err := w.redis.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: w.stream, Group: w.group, Start: entry.ID, End: entry.ID, Count: 1,
	}).Result()
	if err != nil {
		return 0, err
	}
	failure := errors.New("its workers died")
	if len(deliveries) == 0 || deliveries[0].RetryCount <= mostTries {
		failure = work(stop, entry.Values)
	}
	if failure == nil {
		return 0, w.end(ctx, entry.ID)
	}
	if stop.Err() != nil {
		return stopped, w.putBack(ctx, entry.ID)
	}
	fmt.Fprintln(os.Stderr, "failed:", entry.ID, failure)
	return messageFailed, w.end(ctx, entry.ID, w.stream+":failed")
}

// putBack lets the next worker take over the entry at once, and counts no try.
func (w *worker) putBack(ctx context.Context, id string) error {
	return w.redis.Do(ctx, "XCLAIM", w.stream, w.group, w.job, 0, id, "IDLE", lease.Milliseconds(), "RETRYCOUNT", 0, "JUSTID").Err()
}

var end = redis.NewScript(`
local stream, failed, group, job, id = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
if id ~= "" then
  local entry = redis.call("XRANGE", stream, id, id)[1]
  if redis.call("XACK", stream, group, id) == 1 and entry and failed then redis.call("XADD", failed, "*", unpack(entry[2])) end
  redis.call("XDEL", stream, id) -- leave it out if other groups read the stream
end
if #redis.call("XPENDING", stream, group, "-", "+", 1, job) == 0 then redis.call("XGROUP", "DELCONSUMER", stream, group, job) end
return id
`)

// end acknowledges and deletes the entry, if there is one, and adds it to another stream if one is named. Then it
// deletes the consumer. All this is one step.
func (w *worker) end(ctx context.Context, id string, to ...string) error {
	return end.Run(ctx, w.redis, append([]string{w.stream}, to...), w.group, w.job, id).Err()
}
