// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

const (
	// committedFolder has the results to compare with.
	committedFolder = "docs/contributing/benchmarks"
	// tries is how often a figure may be too slow before it fails.
	tries = 3
	// A ratio may be worse than the worst that is committed by so much. Few samples decide about a tail.
	margin     = 1.3
	tailMargin = 2.0
)

// faults are the figures of a measurement that are too slow, by their works, and why.
type faults map[string]error

// guard fails if the operator has become slower, compared with the minimal loop in the same run, than it was in the
// committed results. It measures what is too slow again, and fails for what was too slow each time. Only ratios are
// compared, so the machine may be another one, but should have the same number of cores.
func guard(committed []*results.Run, names []string, measure func(names []string) (*results.Run, error)) error {
	left := map[string]faults{}
	for try := range tries {
		now, err := measure(names)
		if err != nil {
			return err
		}
		for _, name := range names {
			found, err := compare(committed, now, name)
			if err != nil {
				return err
			}
			if try > 0 {
				maps.DeleteFunc(found, func(work string, _ error) bool { return left[name][work] == nil })
			}
			left[name] = found
		}
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return len(left[name]) == 0 })
		if len(names) == 0 {
			return nil
		}
	}
	var errs []error
	for _, name := range names {
		errs = slices.AppendSeq(errs, maps.Values(left[name]))
	}
	return errors.Join(errs...)
}

// otherCores is a warning, unless all committed results are of machines with this number of cores.
func otherCores(committed []*results.Run, here int) string {
	for _, run := range committed {
		if run.Cores != here {
			return fmt.Sprintf("warning: committed results are of a machine with %d cores, and this one has %d: the ratios may differ\n", run.Cores, here)
		}
	}
	return ""
}

// compare returns what is too slow. It fails if there is nothing to compare with.
func compare(committed []*results.Run, now *results.Run, name string) (faults, error) {
	rows, err := results.Merge(committed, name)
	if err != nil {
		return nil, err
	}
	found, compared := faults{}, 0
	for _, row := range rows {
		if row.Ratio.Least == 0 {
			continue
		}
		compared++
		if err := tooSlow(row, now.Find(name)); err != nil {
			found[row.First.Work] = fmt.Errorf("%s: %w", row.First.Work, err)
		}
	}
	if compared == 0 {
		return nil, fmt.Errorf("the committed results compare nothing of %s with the minimal loop", name)
	}
	return found, nil
}

// tooSlow fails unless the figure of today is there, and not much worse than all that are committed.
func tooSlow(row *results.Row, now *results.Measurement) error {
	var figure *results.Figure
	if now != nil {
		figure = now.Find(row.First.Work)
	}
	if figure == nil || figure.Ratio == 0 {
		return errors.New("it is no longer measured")
	}
	allowed := margin
	if work := row.First.Work; strings.Contains(work, "p99") || strings.Contains(work, "longest") {
		allowed = tailMargin
	}
	if row.First.AtLeast > 0 {
		if least := row.Ratio.Least / allowed; figure.Ratio < least {
			return fmt.Errorf("its ratio to the minimal loop is %.2f, and should be at least %.2f", figure.Ratio, least)
		}
		return nil
	}
	if most := row.Ratio.Most * allowed; figure.Ratio > most {
		return fmt.Errorf("its ratio to the minimal loop is %.2f, and should be at most %.2f", figure.Ratio, most)
	}
	return nil
}
