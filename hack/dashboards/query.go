// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// Only the leader has series of ScaledJobs. While the lead moves, the previous leader and the next one may have the
// same ones: of values take the maximum, and of rates the sum, since each replica counts only what it did itself.

// most is the value of each series with these labels, whichever replica has it. labels are names with commas.
func most(labels, metric, selector string) string {
	return fmt.Sprintf("max by (%s) (%s{%s})", labels, metric, selector)
}

// ofEach is the value of each ScaledJob.
func ofEach(metric, selector string) string { return most("namespace, scaledjob", metric, selector) }

// ofKeys is the value of each key of each ScaledJob.
func ofKeys(metric, selector string) string {
	return most("namespace, scaledjob, queue", metric, selector)
}

// sum adds values up, into one sum for each of the labels.
func sum(labels, of string) string {
	if labels == "" {
		return fmt.Sprintf("sum(%s)", of)
	}
	return fmt.Sprintf("sum by (%s) (%s)", labels, of)
}

// orZero is 0 while there is no series.
func orZero(of string) string { return of + " or vector(0)" }

// rate is how much counters grow in a second, added up into one sum for each of the labels.
func rate(labels, metric, selector string) string {
	return sum(labels, fmt.Sprintf("rate(%s{%s}[$__rate_interval])", metric, selector))
}

// inMinute is the same in a minute.
func inMinute(labels, metric, selector string) string {
	return "60 * " + rate(labels, metric, selector)
}

// quantiles are the median and the 99th percentile of a histogram, from its classic buckets, or from its native ones if
// Prometheus keeps only those.
func quantiles(metric, selector string) []query {
	classic, native := rate("le", metric+"_bucket", selector), rate("", metric, selector)
	expr := func(quantile string) string {
		return fmt.Sprintf("histogram_quantile(%[1]s, %[2]s) or histogram_quantile(%[1]s, %[3]s)", quantile, classic, native)
	}
	return []query{{expr("0.5"), "median"}, {expr("0.99"), "99 %"}}
}

// age is how long the oldest message has waited, for each of the labels: exactly if the operator knows, and otherwise
// since when there have been messages in the queue.
func age(labels, selector string) string {
	return fmt.Sprintf("clamp_min(time() - min by (%s) (%s or %s), 0)", labels,
		ofKeys("scaledjob_queue_oldest_message_timestamp_seconds", selector),
		ofKeys("scaledjob_queue_nonempty_since_timestamp_seconds", selector))
}
