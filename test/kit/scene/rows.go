// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"maps"
	"slices"
	"testing"
)

// Rows are the rows of a matrix that this run tests: all of them, or with -short, as make test runs, those that
// represent the others.
func Rows[R any](all map[string]R, representatives ...string) map[string]R {
	if !testing.Short() {
		return all
	}
	chosen := maps.Clone(all)
	maps.DeleteFunc(chosen, func(name string, _ R) bool { return !slices.Contains(representatives, name) })
	if len(chosen) != len(representatives) {
		panic("a representative is none of the rows")
	}
	return chosen
}

// RowsNamed is Rows for rows in an order, each with a name.
func RowsNamed[R any](all []R, name func(R) string, representatives ...string) []R {
	if !testing.Short() {
		return all
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(row R) bool { return !slices.Contains(representatives, name(row)) })
	if len(chosen) != len(representatives) {
		panic("a representative is none of the rows")
	}
	return chosen
}
