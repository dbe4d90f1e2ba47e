// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package sjtest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// Test is a ScaledJob of a test. Its methods that are named like those of [ScaledJob] use the context of the test, and
// fail the test where those return an error.
type Test struct {
	*ScaledJob

	TB testing.TB
	// Timeout bounds each wait.
	Timeout time.Duration
}

// mostShown is how many lines of the operator's log are shown about a namespace.
const mostShown = 200

// shown has the namespaces of tests that failed, about which the log was shown.
var shown sync.Map

// NewTest wraps a ScaledJob for a test. If the test fails, it shows what the operator logged last about the namespace,
// once for all ScaledJobs of the namespace.
func NewTest(tb testing.TB, timeout time.Duration, scaledJob *ScaledJob) *Test {
	tb.Helper()
	s := &Test{ScaledJob: scaledJob, TB: tb, Timeout: timeout}
	tb.Cleanup(func() {
		if !tb.Failed() || scaledJob.Operator == nil {
			return
		}
		if _, before := shown.LoadOrStore(s.Namespace, true); !before {
			lines := strings.SplitAfter(scaledJob.Operator.LogsAbout(s.Namespace), "\n")
			last := strings.Join(lines[max(0, len(lines)-mostShown):], "")
			tb.Logf("what the operator logged last about namespace %s:\n%s", s.Namespace, last)
		}
	})
	return s
}

// Create creates the ScaledJob, and deletes it at the end of the test.
func (s *Test) Create(changes ...Change) {
	s.TB.Helper()
	s.check(s.ScaledJob.Create(s.TB.Context(), changes...))
	s.TB.Cleanup(func() {
		s.check(s.ScaledJob.Delete(context.WithoutCancel(s.TB.Context()), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	})
}

// Push adds messages to the queue, each by a command of its own.
func (s *Test) Push(messages int) {
	s.TB.Helper()
	s.check(s.ScaledJob.Push(s.TB.Context(), messages))
}

// PushTogether adds messages to the queue in one transaction: whoever looks sees none of them, or all.
func (s *Test) PushTogether(messages int) {
	s.TB.Helper()
	s.check(s.ScaledJob.PushTogether(s.TB.Context(), messages))
}

// Subscribers returns how many connections are subscribed to the queue.
func (s *Test) Subscribers() int64 {
	s.TB.Helper()
	subscribers, err := s.ScaledJob.Subscribers(s.TB.Context())
	s.check(err)
	return subscribers
}

// Get returns the ScaledJob as it is now.
func (s *Test) Get() *scaledjobv1.ScaledJob {
	s.TB.Helper()
	object, err := s.ScaledJob.Get(s.TB.Context())
	s.check(err)
	return object
}

// Status returns the status as it is now.
func (s *Test) Status() scaledjobv1.ScaledJobStatus {
	s.TB.Helper()
	return s.Get().Status
}

// Condition returns the condition of this type, nil if there is none.
func (s *Test) Condition(kind string) *metav1.Condition {
	s.TB.Helper()
	return apimeta.FindStatusCondition(s.Get().Status.Conditions, kind)
}

// Update changes the spec.
func (s *Test) Update(changes ...Change) {
	s.TB.Helper()
	s.check(s.ScaledJob.Update(s.TB.Context(), changes...))
}

// Delete deletes the ScaledJob, if it exists.
func (s *Test) Delete(options ...client.DeleteOption) {
	s.TB.Helper()
	s.check(s.ScaledJob.Delete(s.TB.Context(), options...))
}

// Reconciles returns how often the operator has reconciled the ScaledJob.
func (s *Test) Reconciles() int {
	s.TB.Helper()
	reconciles, err := s.ScaledJob.Reconciles(s.TB.Context())
	s.check(err)
	return reconciles
}

// AwaitSubscription returns once somebody is subscribed to the queue.
func (s *Test) AwaitSubscription() {
	s.TB.Helper()
	s.await(s.ScaledJob.AwaitSubscription)
}

// AwaitTemplateChecked returns once the operator has asked the API server about the template.
func (s *Test) AwaitTemplateChecked() {
	s.TB.Helper()
	s.await(s.ScaledJob.AwaitTemplateChecked)
}

// AwaitReconciles returns after so many more reconciles.
func (s *Test) AwaitReconciles(more int) {
	s.TB.Helper()
	s.await(func(ctx context.Context) error { return s.ScaledJob.AwaitReconciles(ctx, more) })
}

// AwaitQuiet returns when the ScaledJob has not been reconciled for this long, and nothing is left to have it
// reconciled.
func (s *Test) AwaitQuiet(period time.Duration) {
	s.TB.Helper()
	s.await(func(ctx context.Context) error { return s.ScaledJob.AwaitQuiet(ctx, period) })
}

// Explain is what the status says, for messages about what did not happen.
func (s *Test) Explain() string {
	status := s.Status()
	return Explain(&status)
}

func (s *Test) await(wait func(context.Context) error) {
	s.TB.Helper()
	ctx, cancel := context.WithTimeout(s.TB.Context(), s.Timeout)
	defer cancel()
	s.check(wait(ctx))
}

func (s *Test) check(err error) {
	s.TB.Helper()
	if err != nil {
		s.TB.Fatal(err)
	}
}
