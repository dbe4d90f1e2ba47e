// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"time"
)

// Duration formats a duration in milliseconds, or in seconds from one second on.
func Duration(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// Count returns a number and its noun: "1 Job", "2 Jobs".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
