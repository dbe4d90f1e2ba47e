// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Claims holds since when Jobs have had a ready Pod, as far as passes have seen it. The longer one has, the surer it is that it has taken its
// messages off the queue; nothing else tells. What was seen before a restart is lost, and then a Job counts as one that has taken none for
// longer than it should: there may be fewer Jobs than are due for that time, and never more.
type Claims map[types.UID]time.Time

// Count notes which of the Jobs are ready now. It returns how many have been for all of grace, and when the next of the others will have
// been; zero if none is about to. A Job that ceases to be ready begins anew: its next Pod takes messages again.
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
