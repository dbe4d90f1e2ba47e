// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package jobtemplate knows what the template of a Job itself does not tell: when users edited it, and whether the API server accepts it.
package jobtemplate

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/report"
)

// ChecksPerSecond bounds the dry runs of all ScaledJobs together.
const ChecksPerSecond = 5

// Checker asks the API server, by a dry run, whether it accepts Jobs of a template.
type Checker struct {
	// Client writes to the API server.
	Client client.Writer
	// Turns spaces out the dry runs of all ScaledJobs.
	Turns *rate.Limiter
}

// NewChecker returns a checker that sends no more than ChecksPerSecond.
func NewChecker(writer client.Writer) *Checker {
	return &Checker{Client: writer, Turns: rate.NewLimiter(ChecksPerSecond, ChecksPerSecond)}
}

// Check is where the check of one ScaledJob's template stands. The zero value is that of a template which was never checked.
type Check struct {
	// Turn is when the API server may be asked; zero if nothing waits to be asked.
	Turn time.Time
	// asked is when it was asked last.
	asked time.Time
}

// Check asks once per generation, again at the resync as long as there was no answer, and returns nil where there is nothing to ask. Known is
// what was told last. Where very many wait to ask, each gets a turn. It never holds back a Job.
func (c *Checker) Check(ctx context.Context, sj *scaledjobv1.ScaledJob, check *Check, known []metav1.Condition) *report.Condition {
	now := time.Now()
	if !check.due(sj, known, now) {
		return nil
	}
	if check.Turn.IsZero() {
		check.Turn = now.Add(c.Turns.ReserveN(now, 1).DelayFrom(now))
	}
	if now.Before(check.Turn) {
		return report.TemplateUnasked
	}
	*check = Check{asked: now}
	err := c.Client.Create(ctx, jobs.Build(sj, jobs.DryRunOrdinal, 0), client.DryRunAll)
	return report.Template(err)
}

func (c *Check) due(sj *scaledjobv1.ScaledJob, known []metav1.Condition, now time.Time) bool {
	current := apimeta.FindStatusCondition(known, scaledjobv1.ConditionTemplateValid)
	waits := !c.Turn.IsZero()
	if waits || current == nil || current.ObservedGeneration != sj.Generation {
		return true
	}
	return current.Status == metav1.ConditionUnknown && now.Sub(c.asked) > sj.Spec.PollingInterval()/2
}

// Accepted says that the API server accepts Jobs of this template, by this answer or, if there is none, by what was told before.
func Accepted(sj *scaledjobv1.ScaledJob, known []metav1.Condition, answer *report.Condition) bool {
	if answer != nil {
		return answer.Status == metav1.ConditionTrue
	}
	told := apimeta.FindStatusCondition(known, scaledjobv1.ConditionTemplateValid)
	return told != nil && told.ObservedGeneration == sj.Generation && told.Status == metav1.ConditionTrue
}
