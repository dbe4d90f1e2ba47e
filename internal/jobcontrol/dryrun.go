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

// DryRunsPerSecond bounds the dry runs of all ScaledJobs together.
const DryRunsPerSecond = 5

// DryRunner asks the API server, by a dry run, whether it accepts Jobs of a template.
type DryRunner struct {
	// Client writes to the API server.
	Client client.Writer
	// Turns spaces out the dry runs of all ScaledJobs.
	Turns *rate.Limiter
}

// NewDryRunner returns one that sends no more than DryRunsPerSecond.
func NewDryRunner(writer client.Writer) *DryRunner {
	return &DryRunner{Client: writer, Turns: rate.NewLimiter(DryRunsPerSecond, DryRunsPerSecond)}
}

// DryRun is where the dry run of one ScaledJob's template stands. The zero value is that of a template that was never sent.
type DryRun struct {
	// Turn is when the dry run may be sent; zero if none waits to be.
	Turn time.Time
	// sent is when the last one was.
	sent time.Time
}

// DryRun sends a dry run of the template once per generation, and again at the resync while there was no verdict. It returns whether it sent
// one, and the error that the API server answered. Known are the conditions as they were last reported. While very many wait, each gets a
// turn. It never holds back a Job.
func (d *DryRunner) DryRun(
	ctx context.Context, sj *scaledjobv1.ScaledJob, run *DryRun, known []metav1.Condition,
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
	*run = DryRun{sent: now}
	return true, d.Client.Create(ctx, jobs.Build(sj, jobs.DryRunOrdinal, 0), client.DryRunAll)
}

// Waits says whether a dry run waits for its turn.
func (r *DryRun) Waits() bool { return !r.Turn.IsZero() }

func (r *DryRun) due(sj *scaledjobv1.ScaledJob, known []metav1.Condition, now time.Time) bool {
	current := apimeta.FindStatusCondition(known, scaledjobv1.ConditionTemplateValid)
	if r.Waits() || current == nil || current.ObservedGeneration != sj.Generation {
		return true
	}
	return current.Status == metav1.ConditionUnknown && now.Sub(r.sent) > sj.Spec.PollingInterval()/2
}
