// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A vital is measured at rest by many looks, since what is under way only adds to
// it. The looks go on until there were some collections, which they bring about
// themselves.
const (
	restLooks    = 100
	restInterval = 100 * time.Millisecond
	collections  = 5
)

// atRest measures an operator that has nothing to do.
func atRest(ctx context.Context, metricsURL string) (vitals, error) {
	least, begun, err := look(ctx, metricsURL)
	if err != nil {
		return vitals{}, err
	}
	for looks, done := 1, begun; looks < restLooks || done < begun+collections; looks++ {
		if err := pause(ctx, restInterval); err != nil {
			return vitals{}, err
		}
		var now vitals
		if now, done, err = look(ctx, metricsURL); err != nil {
			return vitals{}, err
		}
		least = least.least(now)
	}
	return least, nil
}

// look reads the vitals from the metrics, and how often garbage was collected.
func look(ctx context.Context, metricsURL string) (now vitals, collected int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metricsURL, nil)
	if err != nil {
		return vitals{}, 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return vitals{}, 0, fmt.Errorf("looking at the operator: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	return readVitals(response.Body)
}

func readVitals(metrics io.Reader) (now vitals, collected int, err error) {
	wanted := map[string]*int{
		"go_goroutines":                &now.goroutines,
		"go_memstats_heap_alloc_bytes": &now.heapBytes,
		"process_open_fds":             &now.openFiles,
		"go_gc_duration_seconds_count": &collected,
	}
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		now.series++
		name, value, _ := strings.Cut(line, " ")
		into, is := wanted[name]
		if !is {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return vitals{}, 0, fmt.Errorf("reading metric %s: %w", name, err)
		}
		*into = int(number)
		delete(wanted, name)
	}
	if len(wanted) > 0 {
		return vitals{}, 0, fmt.Errorf("the operator does not tell %d of its vitals", len(wanted))
	}
	return now, collected, lines.Err()
}

// pause returns after this time, or earlier if ctx ends.
func pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
