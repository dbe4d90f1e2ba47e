// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package skip chooses the tests and rows that only make test-all runs.
package skip

import (
	"maps"
	"slices"
	"testing"
)

// UnderShort skips a test with -short, as make test runs. The reason says why make test can do without it.
func UnderShort(tb testing.TB, reason string) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("make test-all: " + reason)
	}
}

// AllBut returns the rows of a matrix that this run tests: all of them, or with -short those that represent the others.
func AllBut[R any](t *testing.T, all map[string]R, representatives ...string) map[string]R {
	t.Helper()
	names := AllButNamed(t, slices.Sorted(maps.Keys(all)), func(name string) string { return name }, representatives...)
	chosen := map[string]R{}
	for _, name := range names {
		chosen[name] = all[name]
	}
	return chosen
}

// AllButNamed is AllBut for a slice whose rows name gives names to.
func AllButNamed[R any](t *testing.T, all []R, name func(R) string, representatives ...string) []R {
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
