// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticksPerSecond is the unit in which Linux tells programs about CPU time, on every architecture.
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

// residentBytes returns how much memory of the machine a process has.
func residentBytes(pid int) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parseResident(string(content))
}

func parseResident(status string) (float64, error) {
	const kib = 1024
	_, rest, found := strings.Cut(status, "VmRSS:")
	size, _, hasUnit := strings.Cut(rest, " kB\n")
	if !found || !hasUnit {
		return 0, errors.New("the memory of a process cannot be read")
	}
	kibibytes, err := strconv.Atoi(strings.TrimSpace(size))
	return float64(kibibytes) * kib, err
}
