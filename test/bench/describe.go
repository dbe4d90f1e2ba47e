// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/discovery"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

// unknown is what could not be found out.
const unknown = "unknown"

// describe tells when and on what a run takes its figures, of which there are none yet.
func (s *setting) describe(ctx context.Context, size sizes) (*results.Run, error) {
	run := &results.Run{
		Version: results.Version, Date: time.Now().UTC().Truncate(time.Second),
		Go: runtime.Version(), CPU: cpuModel(), Cores: runtime.NumCPU(),
		Samples: size.samples, Rounds: size.rounds,
	}
	run.Commit, run.Modified = commit(ctx)
	api, err := discovery.NewDiscoveryClientForConfig(s.control.Config())
	if err != nil {
		return nil, err
	}
	version, err := api.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("reading the version of the API server: %w", err)
	}
	run.Kubernetes = version.GitVersion
	info, err := s.redis.Client().Info(ctx, "server").Result()
	run.Redis = serverVersion(info)
	return run, err
}

// commit is that of the tree, and whether the tree differs from it.
func commit(ctx context.Context) (name string, modified bool) {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return unknown, false
	}
	changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no").Output()
	return strings.TrimSpace(string(head)), err != nil || len(changes) > 0
}

// cpuModel is what Linux calls the CPU.
func cpuModel() string {
	content, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return unknown
	}
	return valueOf(string(content), "model name")
}

// load is how many processes wanted to run in the last minute, on average, and 0 where that is not told.
func load() float64 {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(content), " ")
	average, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return average
}

// serverVersion is the product and the version that a Redis server tells in its information. Valkey tells a version of
// Redis too, which it is compatible with.
func serverVersion(info string) string {
	if version := valueOf(info, "valkey_version"); version != unknown {
		return "Valkey " + version
	}
	return "Redis " + valueOf(info, "redis_version")
}

// valueOf is the value of the first line with this key.
func valueOf(text, key string) string {
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

// measured is what a measurement has found, for the document.
func measured(name string, took time.Duration, comparisons []comparison) results.Measurement {
	m := results.Measurement{Name: name, Seconds: results.Round(took.Seconds())}
	for _, c := range comparisons {
		m.Figures = append(m.Figures, c.figure())
	}
	return m
}
