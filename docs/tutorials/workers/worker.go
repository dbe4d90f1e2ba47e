// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command worker takes messages from the list QUEUE of the Redis server REDIS (host:port), and processes them. JOB is
// the name of its Job. It ends after one message, or with UNTIL_EMPTY=yes when there are no more.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
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

// work is the work: replace it, and return when the context is done. Here it sleeps for as many seconds as the message
// says.
func work(ctx context.Context, message string) error {
	fmt.Println("processing", message)
	duration, err := time.ParseDuration(message + "s")
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

func run() (code int) {
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	queue := os.Getenv("QUEUE")
	w := &worker{
		redis: redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS")}), job: os.Getenv("JOB"),
		queue: queue, processing: queue + ":processing", tries: queue + ":processing:tries", failed: queue + ":failed",
	}
	code, err := w.run(stop, os.Getenv("UNTIL_EMPTY") != "")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

type worker struct {
	redis                                 *redis.Client
	job, queue, processing, tries, failed string
}

// run processes messages, and returns the exit code.
func (w *worker) run(stop context.Context, untilEmpty bool) (code int, err error) {
	ctx := context.WithoutCancel(stop) // SIGTERM interrupts the work only
	for processed := false; stop.Err() == nil; {
		message, held, err := w.take(ctx)
		if err != nil {
			return 0, err
		}
		if held {
			if code, err = w.process(stop, message); code != 0 || err != nil || !untilEmpty {
				return code, err
			}
			processed = true
			continue
		}
		// A worker may have died: wait until its lease ends.
		if ended, err := w.ended(ctx, processed); ended || err != nil {
			return 0, err
		}
	}
	return stopped, nil
}

// take returns a message that this Job holds: one whose worker died, or the next one.
func (w *worker) take(ctx context.Context) (message string, held bool, err error) {
	inProgress, err := w.redis.LRange(ctx, w.processing, 0, -1).Result()
	if err != nil {
		return "", false, err
	}
	for _, message := range inProgress {
		if held, err := w.lease(ctx, message); held || err != nil {
			return message, held, err
		}
	}
	message, err = w.redis.BLMove(ctx, w.queue, w.processing, "RIGHT", "LEFT", 2*time.Second).Result()
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	if err == nil {
		held, err = w.lease(ctx, message)
	}
	return message, held, err
}

// lease reserves a message for this Job. It fails if another Job holds the message or has finished it.
func (w *worker) lease(ctx context.Context, message string) (held bool, err error) {
	if err := w.redis.SetNX(ctx, w.leaseOf(message), w.job, lease).Err(); err != nil {
		return false, err
	}
	holder, err := w.redis.Get(ctx, w.leaseOf(message)).Result()
	if holder != w.job || err != nil {
		return false, ignoreNil(err)
	}
	err = w.redis.LPos(ctx, w.processing, message, redis.LPosArgs{}).Err()
	if errors.Is(err, redis.Nil) {
		return false, w.release(ctx, message)
	}
	return err == nil, err
}

func (w *worker) leaseOf(message string) string { return w.processing + ":lease:" + message }

var release = redis.NewScript(`
if redis.call("LREM", KEYS[1], 1, ARGV[1]) == 1 and KEYS[4] then redis.call("RPUSH", KEYS[4], ARGV[1]) end
redis.call("DEL", KEYS[2])
redis.call("HDEL", KEYS[3], ARGV[1])
`)

// release removes a message from the list in progress, and adds it to another list if one is named, in one step.
func (w *worker) release(ctx context.Context, message string, to ...string) error {
	keys := append([]string{w.processing, w.leaseOf(message), w.tries}, to...)
	return ignoreNil(release.Run(ctx, w.redis, keys, message).Err())
}

// process processes a message, and returns the exit code.
func (w *worker) process(stop context.Context, message string) (code int, err error) {
	ctx := context.WithoutCancel(stop)
	tries, err := w.redis.HIncrBy(ctx, w.tries, message, 1).Result()
	if err != nil {
		return 0, err
	}
	if failure := w.try(stop, message, tries); failure != nil {
		if stop.Err() != nil {
			return stopped, w.release(ctx, message, w.queue)
		}
		fmt.Fprintln(os.Stderr, "failed:", message, failure)
		return messageFailed, w.release(ctx, message, w.failed)
	}
	return 0, w.release(ctx, message)
}

func (w *worker) try(stop context.Context, message string, tries int64) error {
	if tries > mostTries {
		return errors.New("its workers died " + strconv.Itoa(mostTries) + " times")
	}
	return work(stop, message)
}

// ended reports whether there is nothing left to do, or to wait for.
func (w *worker) ended(ctx context.Context, processed bool) (bool, error) {
	waiting, err := w.redis.LLen(ctx, w.queue).Result()
	if waiting > 0 || err != nil {
		return false, err
	}
	inProgress, err := w.redis.LLen(ctx, w.processing).Result()
	return processed || inProgress == 0, err
}

func ignoreNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}
