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
func Rows[R any](t *testing.T, all map[string]R, representatives ...string) map[string]R {
	t.Helper()
	names := RowsNamed(t, slices.Sorted(maps.Keys(all)), func(name string) string { return name }, representatives...)
	chosen := map[string]R{}
	for _, name := range names {
		chosen[name] = all[name]
	}
	return chosen
}

// RowsNamed is Rows for rows in an order, each with a name.
func RowsNamed[R any](t *testing.T, all []R, name func(R) string, representatives ...string) []R {
	t.Helper()
	chosen := slices.DeleteFunc(slices.Clone(all), func(row R) bool { return !slices.Contains(representatives, name(row)) })
	if len(chosen) != len(representatives) {
		t.Fatalf("not all of %q are rows of the test", representatives)
	}
	if !testing.Short() {
		return all
	}
	return chosen
}
