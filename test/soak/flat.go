// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
)

// vitals are what grows in an operator that leaks.
type vitals struct {
	goroutines int
	heapBytes  int // of live objects and those that are not collected yet
	openFiles  int // connections are most of them
	series     int // of all metrics
}

// String tells them in a line.
func (v vitals) String() string {
	return fmt.Sprintf("goroutines %d, heap %.1f MiB, open files %d, series %d",
		v.goroutines, float64(v.heapBytes)/(1<<20), v.openFiles, v.series)
}

// least takes the lesser of each.
func (v vitals) least(other vitals) vitals {
	return vitals{
		goroutines: min(v.goroutines, other.goroutines),
		heapBytes:  min(v.heapBytes, other.heapBytes),
		openFiles:  min(v.openFiles, other.openFiles),
		series:     min(v.series, other.series),
	}
}

// How much more there may be at the end than after the warm-up. What leaks at
// every fault, ScaledJob or Job soon exceeds it: there are hundreds of them.
const (
	// roomGoroutines and roomFiles are for the connections that are kept open, of
	// which there are some more or less at any time.
	roomGoroutines = 15
	roomFiles      = 10
	// roomHeapPart is a part of the heap, and roomHeapBytes goes with it.
	roomHeapPart  = 0.2
	roomHeapBytes = 2 << 20
	// roomSeries is for reasons and status codes that come up for the first time.
	roomSeries = 15
)

// grown returns an error for each of the vitals that is not flat, and nil if all are.
func grown(before, after vitals) error {
	var errs []error
	for _, c := range []struct {
		what                string
		before, after, room int
	}{
		{"goroutines", before.goroutines, after.goroutines, roomGoroutines},
		{"bytes of heap", before.heapBytes, after.heapBytes, int(roomHeapPart*float64(before.heapBytes)) + roomHeapBytes},
		{"open files", before.openFiles, after.openFiles, roomFiles},
		{"series of metrics", before.series, after.series, roomSeries},
	} {
		if c.after > c.before+c.room {
			errs = append(errs, fmt.Errorf("the operator leaks: it has %d %s at rest, and had %d after the warm-up; %d more would be normal",
				c.after, c.what, c.before, c.room))
		}
	}
	return errors.Join(errs...)
}
