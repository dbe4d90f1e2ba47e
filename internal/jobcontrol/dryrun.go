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
	// dryRunTimeout is the timeout of a dry run, and hangingDryRunTimeout while creates in the namespace hang.
	dryRunTimeout, hangingDryRunTimeout = 5 * time.Second, time.Second
	// patientDryRunTimeout is that of one dry run of each namespace at a time. Admission webhooks may take up to 30 s, and
	// only the answer of the API server after that names the webhook.
	patientDryRunTimeout = 32 * time.Second
)

// DryRunner sends dry runs to find out whether the API server accepts Jobs of a template.
type DryRunner struct {
	// Client writes to the API server.
	Client client.Writer
	// Patience allows one dry run of each namespace to take longer.
	Patience *Patience
	// Hangs means that creates in the namespace hang.
	Hangs bool
	// TemplateHash is the hash of the template.
	TemplateHash string
}

// DryRun is the state of the dry run of one ScaledJob's template. The zero value means that none was sent.
type DryRun struct {
	// sent is when the last dry run was sent.
	sent time.Time
}

// DryRun sends a dry run of the template once per generation. While the condition TemplateValid is not True, it sends
// another one at the resync. known are the last reported conditions. withTemplate returns the ScaledJob with its
// template. DryRun returns whether it asked the API server, the error that this answered, and its warnings.
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
	end, first := d.Patience.Begin(namespace)
	switch {
	case first:
		return patientDryRunTimeout, end
	case d.Hangs:
		return hangingDryRunTimeout, end
	}
	return dryRunTimeout, end
}

// Patience says which requests may wait until the API server names a webhook that hangs: one of each namespace at a
// time. The zero value is ready. It is safe for concurrent use.
type Patience struct{ namespaces sync.Map }

// Begin reports whether no other request of the namespace waits. The caller must call end after the request.
func (p *Patience) Begin(namespace string) (end func(), first bool) {
	if _, taken := p.namespaces.LoadOrStore(namespace, true); taken {
		return func() { /* Another request waits. */ }, false
	}
	return func() { p.namespaces.Delete(namespace) }, true
}

func (r *DryRun) due(sj *scaledjobv1.ScaledJob, known []metav1.Condition, now time.Time) bool {
	current := apimeta.FindStatusCondition(known, scaledjobv1.ConditionTemplateValid)
	if current == nil || current.ObservedGeneration != sj.Generation {
		return true
	}
	return current.Status != metav1.ConditionTrue && now.Sub(r.sent) > sj.Spec.PollingInterval()/2
}
