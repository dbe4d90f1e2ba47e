// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// A vital is measured at rest by many looks, since what is under way only adds to it. The looks go on until there were
// some collections, which they bring about themselves.
const (
	restLooks    = 100
	restInterval = 100 * time.Millisecond
	collections  = 5
)

// atRest measures an operator that has nothing to do.
func atRest(ctx context.Context, at *operator.Operator) (vitals, error) {
	least, begun, err := look(ctx, at)
	if err != nil {
		return vitals{}, err
	}
	for looks, done := 1, begun; looks < restLooks || done < begun+collections; looks++ {
		if err := sjtest.Pause(ctx, restInterval); err != nil {
			return vitals{}, err
		}
		var now vitals
		if now, done, err = look(ctx, at); err != nil {
			return vitals{}, err
		}
		least = least.least(now)
	}
	return least, nil
}

// look reads the vitals from the metrics, and how often garbage was collected.
func look(ctx context.Context, at *operator.Operator) (now vitals, collected int, err error) {
	metrics, err := at.Metrics(ctx)
	if err != nil {
		return vitals{}, 0, err
	}
	for name, into := range map[string]*int{
		"go_goroutines":                &now.goroutines,
		"go_memstats_heap_alloc_bytes": &now.heapBytes,
		"process_open_fds":             &now.openFiles,
		"go_gc_duration_seconds_count": &collected,
	} {
		value, told := metrics[name]
		if !told {
			return vitals{}, 0, fmt.Errorf("the operator does not tell %s", name)
		}
		*into = int(value)
	}
	now.series = len(metrics)
	return now, collected, nil
}
