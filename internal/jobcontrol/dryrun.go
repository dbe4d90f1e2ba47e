// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// dryRunTimeout is the timeout of a dry run. Admission webhooks may take up to 30 s.
const dryRunTimeout = 32 * time.Second

// DryRunner sends dry runs to find out whether the API server accepts Jobs of a template.
type DryRunner struct {
	// Client writes to the API server.
	Client client.Writer
	// Take takes a place for a request, and returns how to give it back; nil if there is none.
	Take func() (giveBack func())
	// TemplateHash is the hash of the template.
	TemplateHash string
}

// DryRun is the state of the dry run of one ScaledJob's template. The zero value means that none was sent.
type DryRun struct {
	// waits is true while a dry run waits for a place.
	waits bool
	// sent is when the last dry run was sent.
	sent time.Time
}

// DryRun sends a dry run of the template once per generation. While the condition TemplateValid is not True, it sends
// another one at the resync. known are the last reported conditions. withTemplate returns the ScaledJob with its template.
// DryRun returns whether it asked the API server, the error that this answered, and its warnings. Without a place the dry run waits. Jobs are created without waiting for it.
func (d DryRunner) DryRun(
	ctx context.Context, sj *scaledjobv1.ScaledJob, withTemplate func() (*scaledjobv1.ScaledJob, error),
	run *DryRun, known []metav1.Condition,
) (asked bool, warnings []string, err error) {
	now := time.Now()
	if !run.due(sj, known, now) {
		return false, nil, nil
	}
	giveBack := d.Take()
	if giveBack == nil {
		run.waits = true
		return false, nil, nil
	}
	defer giveBack()
	*run = DryRun{sent: now}
	owner, err := withTemplate()
	if err != nil {
		return true, nil, err
	}
	ctx, collected := admission.WithWarnings(ctx)
	ctx, cancel := context.WithTimeout(ctx, dryRunTimeout)
	defer cancel()
	job := jobs.Build(owner, d.TemplateHash, jobs.DryRunOrdinal, 0)
	err = d.Client.Create(ctx, job, client.DryRunAll)
	return true, collected.Texts(), err
}

// Waits reports whether a dry run waits for a place.
func (r *DryRun) Waits() bool { return r.waits }

func (r *DryRun) due(sj *scaledjobv1.ScaledJob, known []metav1.Condition, now time.Time) bool {
	current := apimeta.FindStatusCondition(known, scaledjobv1.ConditionTemplateValid)
	if r.waits || current == nil || current.ObservedGeneration != sj.Generation {
		return true
	}
	return current.Status != metav1.ConditionTrue && now.Sub(r.sent) > sj.Spec.PollingInterval()/2
}
