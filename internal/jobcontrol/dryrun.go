// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// DryRunsPerSecond is the maximum rate of dry runs, over all ScaledJobs.
const DryRunsPerSecond = 5

// fillRetry is the time after which a dry run is tried again whose template could not be had. Nothing urgent waits for
// it.
const fillRetry = 5 * time.Second

// DryRunner sends dry runs to find out whether the API server accepts Jobs of a template.
type DryRunner struct {
	// Client writes to the API server.
	Client client.Writer
	// Turns limits the rate of dry runs, over all ScaledJobs.
	Turns *rate.Limiter
}

// NewDryRunner returns a DryRunner that sends at most DryRunsPerSecond.
func NewDryRunner(writer client.Writer) *DryRunner {
	return &DryRunner{Client: writer, Turns: rate.NewLimiter(DryRunsPerSecond, DryRunsPerSecond)}
}

// DryRun is the state of the dry run of one ScaledJob's template. The zero value means that none was sent.
type DryRun struct {
	// Turn is when the dry run may be sent; zero if none is waiting.
	Turn time.Time
	// sent is when the last dry run was sent.
	sent time.Time
}

// DryRun sends a dry run of the template once per generation. While the condition TemplateValid is Unknown, it sends
// another one at the resync. known are the last reported conditions. fill puts the template into the ScaledJob; if it
// fails, the dry run waits. DryRun returns whether it sent a dry run, and the
// error that the API server answered. If the rate limit is exceeded, dry runs wait for their turns in order. Jobs are
// created without waiting for the dry run.
func (d *DryRunner) DryRun(
	ctx context.Context, sj *scaledjobv1.ScaledJob, fill func() error, run *DryRun, known []metav1.Condition,
) (sent bool, err error) {
	now := time.Now()
	if !run.due(sj, known, now) {
		return false, nil
	}
	if run.Turn.IsZero() {
		run.Turn = now.Add(d.Turns.ReserveN(now, 1).DelayFrom(now))
	}
	if now.Before(run.Turn) {
		return false, nil
	}
	if err := fill(); err != nil {
		run.Turn = now.Add(fillRetry)
		return false, err
	}
	*run = DryRun{sent: now}
	return true, d.Client.Create(ctx, jobs.Build(sj, jobs.DryRunOrdinal, 0), client.DryRunAll)
}

// Waits reports whether a dry run waits for its turn.
func (r *DryRun) Waits() bool { return !r.Turn.IsZero() }

func (r *DryRun) due(sj *scaledjobv1.ScaledJob, known []metav1.Condition, now time.Time) bool {
	current := apimeta.FindStatusCondition(known, scaledjobv1.ConditionTemplateValid)
	if r.Waits() || current == nil || current.ObservedGeneration != sj.Generation {
		return true
	}
	return current.Status == metav1.ConditionUnknown && now.Sub(r.sent) > sj.Spec.PollingInterval()/2
}
