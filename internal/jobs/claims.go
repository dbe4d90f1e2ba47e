// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Claims records since when Jobs have had a ready Pod, as observed by reconciles. A Job whose Pod has been ready for
// long enough is assumed to have taken its messages from the queue; Redis and Kubernetes do not report that. The record
// is lost in a restart. Until a Job has been ready for long enough again, it counts as not having taken messages, so
// that there may be fewer Jobs than due, but never more.
type Claims map[types.UID]time.Time

// Count updates the record. It returns how many of the active Jobs have been ready for at least grace, and when the
// next Job will have been; zero if none will. The time of a Job that is no longer ready starts again, because its next
// Pod takes messages again.
func (c *Claims) Count(active []*batchv1.Job, grace time.Duration, now time.Time) (claimed int, next time.Time) {
	before := *c
	*c = make(Claims, len(active))
	for _, job := range active {
		if !Ready(job) {
			continue
		}
		since, known := before[job.UID]
		if !known {
			since = now
		}
		(*c)[job.UID] = since
		switch until := since.Add(grace); {
		case !now.Before(until):
			claimed++
		case next.IsZero() || until.Before(next):
			next = until
		}
	}
	return claimed, next
}
