// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
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

// describe says when and on what a run takes its figures, of which there are none yet.
func (s *setting) describe(ctx context.Context) (*results.Run, error) {
	run := &results.Run{
		Date: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), CPU: cpuModel(), Cores: runtime.NumCPU(),
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

// load is how many processes wanted to run in the last minute, on average, and 0 where the system does not say.
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

// serverVersion is the product and the version of a Redis server. Valkey also reports the version of Redis that it is
// compatible with.
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

// ticksPerSecond is the unit in which Linux reports CPU time to programs, on every architecture.
const ticksPerSecond = 100

// cpuTime returns the CPU time that a process has used, in seconds.
func cpuTime(pid int) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseCPUTime(content)
}

// parseCPUTime adds up the 14th and the 15th field: the time in user mode and in the kernel. The second field is the
// name of the program in parentheses, which may have spaces in it.
func parseCPUTime(stat []byte) (float64, error) {
	const user, kernel = 14 - 3, 15 - 3 // of the fields behind the second one
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= kernel {
		return 0, errors.New("the CPU time of a process cannot be read")
	}
	inUser, err := strconv.Atoi(fields[user])
	inKernel, err2 := strconv.Atoi(fields[kernel])
	return float64(inUser+inKernel) / ticksPerSecond, errors.Join(err, err2)
}

// residentMB returns how much memory of the machine a process has, in megabytes.
func residentMB(pid int) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parseResident(string(content))
}

func parseResident(status string) (float64, error) {
	const kibibyte, megabyte = 1024, 1e6
	size, isSize := strings.CutSuffix(valueOf(status, "VmRSS"), " kB")
	if !isSize {
		return 0, errors.New("the memory of a process cannot be read")
	}
	kibibytes, err := strconv.Atoi(size)
	return float64(kibibytes) * kibibyte / megabyte, err
}
