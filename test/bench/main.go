// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures how fast messages become Jobs, on a real API server and a real Redis, and compares the operator with the
// floor: a bare loop that does the least there is to do (see the folder floor). The two take turns in one run, so that whatever else
// the machine does hits both; the ratios are what to look at.
//
//	go run ./test/bench
//
// It fails if either makes another number of Jobs than there are messages. A missed target is only shown: one run on a busy machine
// proves little.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// timeout bounds the whole run.
const timeout = 30 * time.Minute

func main() {
	samples := flag.Int("samples", 400, "How many single messages to push to each, at least 1.")
	rounds := flag.Int("rounds", 10, "How many bursts to push to each, at least 1.")
	burst := flag.Int("burst", 1000, "How many messages are in a burst, at least 1.")
	flag.Parse()
	if flag.NArg() > 0 || min(*samples, *rounds, *burst) < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *samples, *rounds, *burst)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, samples, rounds, burst int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var log io.Writer = os.Stderr
	s, err := newSetting(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(ctx)) }()
	latency, err := measureLatency(ctx, log, s, samples)
	if err != nil {
		return err
	}
	rates, err := measureBursts(ctx, log, s, rounds, burst)
	if err != nil {
		return err
	}
	return printTable(os.Stdout, append(latency, rates))
}
