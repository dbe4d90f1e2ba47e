// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strconv"
	"strings"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

// number tells as much of a number as a measurement is worth: three digits, and all before the point.
func number(value float64) string {
	const digits = 3
	decimals := digits
	if value != 0 {
		decimals = digits - 1 - int(math.Floor(math.Log10(math.Abs(value))))
	}
	text := strconv.FormatFloat(value, 'f', min(max(decimals, 0), digits), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return grouped(text)
}

// grouped puts a comma between thousands.
func grouped(text string) string {
	const group = 3
	whole, decimals, hasPoint := strings.Cut(text, ".")
	for at := len(whole) - group; at > 0 && whole[at-1] != '-'; at -= group {
		whole = whole[:at] + "," + whole[at:]
	}
	if hasPoint {
		return whole + "." + decimals
	}
	return whole
}

func withUnit(value, unit string) string {
	if unit == "" {
		return value
	}
	return strings.Replace(value+" "+unit, " /s", " per second", 1)
}

// spread shows the median, and in brackets between which values the runs are, if they differ.
func spread(s results.Spread, unit string) string {
	shown := withUnit(number(s.Median), unit)
	if least, most := number(s.Least), number(s.Most); least != most {
		shown += " (" + least + "–" + most + ")"
	}
	return shown
}
