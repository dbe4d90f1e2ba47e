// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"math"
	"slices"
	"strings"
)

// levels are the heights of a bar.
var levels = []rune("▁▂▃▄▅▆▇█")

// gap is drawn for an unknown depth.
const gap = ' '

// Sparkline draws the newest samples, one character each, the newest last. The largest of all samples has the full
// height. A sample below 0 is unknown.
func Sparkline(history []int64, width int) string {
	if len(history) == 0 {
		return ""
	}
	largest := max(slices.Max(history), 1)
	var line strings.Builder
	for _, sample := range history[max(0, len(history)-width):] {
		line.WriteRune(bar(sample, largest))
	}
	return line.String()
}

// bar returns the character for a sample. Only 0 has the lowest level.
func bar(sample, largest int64) rune {
	switch {
	case sample < 0:
		return gap
	case sample == 0:
		return levels[0]
	default:
		steps := int64(len(levels) - 1)
		if largest > math.MaxInt64/(steps+1) { // No product overflows.
			sample, largest = sample/(steps+1), largest/(steps+1)
		}
		return levels[(sample*steps+largest-1)/largest]
	}
}
