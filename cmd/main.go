// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command cmd is the operator: it watches ScaledJobs, subscribes to notifications for their Redis queues, and creates
// Jobs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime/debug"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// version is set by the linker.
var version = "dev"

func main() {
	options, err := parseOptions(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		// The flag package has printed the error and the usage.
		os.Exit(2)
	case options.version:
		fmt.Fprintln(os.Stdout, version)
		return
	}
	boundMemory(&garbage{live: liveBytes, setPercent: debug.SetGCPercent})
	log := zap.New(zap.UseFlagOptions(&options.zap))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	if err := start(ctrl.SetupSignalHandler(), options); err != nil {
		log.Error(err, "the operator ends")
		os.Exit(1)
	}
}

// memoryReserve is the part of the memory limit that the Go runtime leaves to what it does not count: a tenth.
const memoryReserve = 10

// boundMemory sets how much memory the Go runtime takes. GOMEMLIMIT is the limit of the container, beyond which the
// kernel kills the process, and the Go runtime does not count the program itself. The garbage is not bounded if the
// user has set the environment variable GOGC.
func boundMemory(collected *garbage) {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		debug.SetMemoryLimit(limit - limit/memoryReserve)
	}
	if os.Getenv("GOGC") == "" {
		collected.bound()
	}
}

// start loads the client configuration of the cluster and runs the operator until ctx ends.
func start(ctx context.Context, options options) error {
	cluster, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the client configuration of the cluster: %w", err)
	}
	ctrl.Log.Info("starting", "version", version, "cluster", cluster.Host)
	return run(ctx, cluster, options)
}
