// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/proof"
)

// fallbackReads is how many reads a second of one server the fallback may add up to.
const fallbackReads = 200

// resyncInterval is how long after a pass the next one comes if nothing calls for it sooner. Without proof that growth is announced it
// is the fallback, unless that is 0. This is stretched where many ScaledJobs share a server, and never longer than the user asks for.
func resyncInterval(sj *scaledjobv1.ScaledJob, known keyspace.State, fallback time.Duration) time.Duration {
	interval := pollingInterval(sj)
	proven := known.Reason == proof.ReasonSubscribed
	if proven || fallback == 0 || sj.Spec.Notifications == scaledjobv1.NotificationsDisabled {
		return interval
	}
	share := time.Duration(known.Watchers) * time.Second / fallbackReads
	return min(interval, max(fallback, share))
}
