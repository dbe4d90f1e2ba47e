// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command prepare puts every program the tests run into the cache folder: the
// control plane, kubectl and Redis, and with the argument demo only those that
// the demo runs. The first run takes minutes, which are better spent here than
// inside go test, where output is hidden and time-outs run.
//
// Environment variables: K8S is the minor version of Kubernetes, PARTS=compile
// downloads no program, and PARTS_MIRROR is where to download from instead of
// the publishers. KUBEBUILDER_ASSETS is a folder with programs of a control
// plane to use instead, REDIS_SERVER the path of a redis-server, or valkey, and
// SCALEDJOB_CACHE a cache folder other than scaledjob-operator in the user's.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"

	"miracle.dev/scaledjob-operator/test/kit/cluster/binaries"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := prepare(ctx, os.Stdout, slices.Contains(os.Args[1:], "demo"))
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// prepare writes to log which versions run, and before, except for the demo, the path of each program.
func prepare(ctx context.Context, log io.Writer, forDemo bool) error {
	programs := binaries.ControlPlane()
	if forDemo {
		programs = binaries.Demo()
	}
	paths := map[binaries.Program]string{}
	for _, program := range programs {
		path, err := binaries.Path(ctx, log, program)
		if err != nil {
			return err
		}
		paths[program] = path
		if !forDemo {
			_, _ = fmt.Fprintln(log, path)
		}
	}
	running, err := version(ctx, paths[binaries.KubeAPIServer])
	if err != nil {
		return err
	}
	if !forDemo {
		redis, err := prepareRedis(ctx, log)
		if err != nil {
			return err
		}
		running += ", " + redis
	}
	_, err = fmt.Fprintln(log, running)
	return err
}

// version returns what kube-apiserver calls itself: "Kubernetes v1.36.3".
func version(ctx context.Context, path string) (string, error) {
	output, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	return strings.TrimSpace(string(output)), nil
}

// prepareRedis writes the path of the server to log and returns its version.
func prepareRedis(ctx context.Context, log io.Writer) (string, error) {
	path, err := redistest.Binary(ctx, log)
	if err != nil {
		return "", err
	}
	version, err := redistest.Version(ctx, path)
	if err == nil {
		_, err = fmt.Fprintln(log, path)
	}
	return version, err
}
