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
	// TemplateHash is the hash of the template.
	TemplateHash string
}

// DryRun is the state of the dry run of one ScaledJob's template. The zero value means that none was sent.
type DryRun struct {
	// sent is when the last dry run was sent.
	sent time.Time
}

// DryRun sends a dry run of the template once per generation. While the condition TemplateValid is not True, it sends
// another one at the resync. known are the last reported conditions. withTemplate returns the ScaledJob with its template.
// DryRun returns whether it asked the API server, the error that this answered, and its warnings.
func (d DryRunner) DryRun(
	ctx context.Context, sj *scaledjobv1.ScaledJob, withTemplate func() (*scaledjobv1.ScaledJob, error),
	run *DryRun, known []metav1.Condition,
) (asked bool, warnings []string, err error) {
	now := time.Now()
	if !run.due(sj, known, now) {
		return false, nil, nil
	}
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

func (r *DryRun) due(sj *scaledjobv1.ScaledJob, known []metav1.Condition, now time.Time) bool {
	current := apimeta.FindStatusCondition(known, scaledjobv1.ConditionTemplateValid)
	if current == nil || current.ObservedGeneration != sj.Generation {
		return true
	}
	return current.Status != metav1.ConditionTrue && now.Sub(r.sent) > sj.Spec.PollingInterval()/2
}
