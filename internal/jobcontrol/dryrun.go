// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

const (
	// dryRunTimeout is the timeout of a dry run.
	dryRunTimeout = 5 * time.Second
	// patientDryRunTimeout is that of one dry run of each namespace at a time. Admission webhooks may take up to 30 s, and
	// only the answer of the API server after that names the webhook.
	patientDryRunTimeout = 32 * time.Second
)

// DryRunner sends dry runs to find out whether the API server accepts Jobs of a template.
type DryRunner struct {
	// Client writes to the API server.
	Client client.Writer
	// Patient has the namespaces in which a dry run is under way that may take longer.
	Patient *sync.Map
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
	timeout, end := d.timeout(sj.Namespace)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	job := jobs.Build(owner, d.TemplateHash, jobs.DryRunOrdinal, 0)
	err = d.Client.Create(ctx, job, client.DryRunAll)
	return true, collected.Texts(), err
}

// timeout returns the timeout of the next dry run in a namespace. The caller must call end after the dry run.
func (d DryRunner) timeout(namespace string) (timeout time.Duration, end func()) {
	if _, taken := d.Patient.LoadOrStore(namespace, true); taken {
		return dryRunTimeout, func() { /* The patient one is another. */ }
	}
	return patientDryRunTimeout, func() { d.Patient.Delete(namespace) }
}

func (r *DryRun) due(sj *scaledjobv1.ScaledJob, known []metav1.Condition, now time.Time) bool {
	current := apimeta.FindStatusCondition(known, scaledjobv1.ConditionTemplateValid)
	if current == nil || current.ObservedGeneration != sj.Generation {
		return true
	}
	return current.Status != metav1.ConditionTrue && now.Sub(r.sent) > sj.Spec.PollingInterval()/2
}
