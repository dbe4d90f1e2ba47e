// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// claims holds since when Jobs have had a ready Pod, as far as passes have seen it. The longer one has, the surer it is that it has taken its
// messages off the queue; nothing else tells. What was seen before a restart is lost, and then a Job counts as one that has taken none for
// longer than it should: there may be fewer Jobs than are due for that time, and never more.
type claims map[types.UID]time.Time

// count notes which of the Jobs are ready now. It returns how many have been for all of grace, and when the next of the others will have
// been; zero if none is about to. A Job that ceases to be ready begins anew: its next Pod takes messages again.
func (c *claims) count(active []*batchv1.Job, grace time.Duration, now time.Time) (claimed int, next time.Time) {
	before := *c
	*c = make(claims, len(active))
	for _, job := range active {
		if !jobs.Ready(job) {
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

// needsClaims says whether the strategy asks which Jobs have taken their messages.
func needsClaims(strategy *scaledjobv1.ScalingStrategy) bool {
	return strategy.Type == scaledjobv1.StrategyAccurate || strategy.Type == scaledjobv1.StrategyCustom
}

// countClaims is count, where the strategy asks for it.
func (m *memory) countClaims(sj *scaledjobv1.ScaledJob, active []*batchv1.Job) (claimed int, next time.Time) {
	strategy := &sj.Spec.ScalingStrategy
	if !needsClaims(strategy) {
		m.claims = nil
		return 0, time.Time{}
	}
	grace := time.Duration(strategy.ClaimGraceSecondsOrDefault()) * time.Second
	return m.claims.count(active, grace, time.Now())
}
