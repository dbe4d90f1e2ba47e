// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command soak keeps the operator busy for minutes or hours: messages come in
// storms to queues on several Redis servers, workers take them and finish Jobs,
// ScaledJobs come and go, some name servers that are none, the faults of the folder
// faults strike the servers at random, the API server is restarted, and in the first
// third of the time the operator is, by SIGKILL or SIGTERM. Nothing but notifications
// notifies the operator of a message: the resync is an hour away, and the polling
// fall-back is off.
//
//	go run ./test/soak -minutes=10 -seed=1
//	go run ./test/soak -minutes=90 -alerts
//
// It fails if there is ever a Job too many, if after a fault or in the end a
// message waits whose Job does not come, or if the operator has grown from the
// second third to the last. First it plays the long forms of the tests of faults and
// races.
//
// With -alerts all is well instead: there are no faults, no restarts and no queue at its limit, Pods run, the operator
// elects a leader and has the memory limit of the Deployment, and nothing is played first. A real Prometheus scrapes it
// and has the alerts of config/prometheus/rules.yaml. The soak fails if one of them fires. It does not compare how much
// the operator has grown, because the messages come without a break: some alerts wait for an hour.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9/logging"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	minutes := flag.Int("minutes", 10, "How long to go on, at least 1.")
	seed := flag.Uint64("seed", rand.Uint64(), "Where chance begins.")
	suites := flag.Bool("suites", true, "Play the long forms of the tests of faults and races first.")
	alerts := flag.Bool("alerts", false, "Leave out all faults, and fail if an alert fires.")
	flag.Parse()
	suitesAsked := false
	flag.Visit(func(set *flag.Flag) { suitesAsked = suitesAsked || set.Name == "suites" && *suites })
	if flag.NArg() > 0 || *minutes < 1 || *alerts && suitesAsked {
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, time.Duration(*minutes)*time.Minute, *seed, *suites && !*alerts, *alerts)
	cancel()
	if err != nil {
		fmt.Fprintf(os.Stderr, "the soak failed, with seed %d: %v\n", *seed, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, lasting time.Duration, seed uint64, suites, alerts bool) (err error) {
	log := os.Stderr
	// Faults make clients complain, and that is all right.
	logging.Disable()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	_, _ = fmt.Fprintf(log, "the seed is %d\n", seed)
	if suites {
		if err := playSuites(ctx, log, seed); err != nil {
			return err
		}
	}
	s, err := newSoak(ctx, log, seed, alerts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if alerts {
		return s.runWell(ctx, lasting)
	}
	return s.run(ctx, lasting)
}
