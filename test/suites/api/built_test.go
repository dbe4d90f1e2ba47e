// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"math"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// newJobClient returns a client for Jobs that collects the warnings of the API server.
func newJobClient(g Gomega) client.Client {
	scheme := runtime.NewScheme()
	g.Expect(batchv1.AddToScheme(scheme)).To(Succeed())
	config := rest.CopyConfig(control.Config())
	config.WarningHandlerWithContext = admission.WarningHandler{}
	api, err := client.New(config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	return api
}

// named is a valid ScaledJob with this name and this specification of its Jobs.
func named(g Gomega, name string, spec batchv1.JobSpec) *scaledjobv1.ScaledJob {
	sj := typed(g, object(g, at("metadata.name", name)))
	sj.UID = "5f0ee5c9-5b5c-4d4b-9b1e-0d4e6c1f8a11"
	spec.Template = sj.Spec.JobTemplate.Spec.Template
	sj.Spec.JobTemplate.Spec = spec
	return sj
}

var (
	parallel = batchv1.JobSpec{Completions: new(int32(5)), Parallelism: new(int32(5))}
	mostPods = batchv1.JobSpec{CompletionMode: new(batchv1.IndexedCompletion), Completions: new(int32(math.MaxInt32))}
	perIndex = batchv1.JobSpec{
		CompletionMode: new(batchv1.IndexedCompletion), Completions: new(int32(100_000)), BackoffLimitPerIndex: new(int32(1)),
	}
	withRules = batchv1.JobSpec{PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42},
		},
	}}}}
)

// The API server accepts the Job of the dry run and each Job after it, without a warning, for each name that the CRD
// accepts: the names are DNS labels, and leave room for what Kubernetes appends.
func TestJobsOfEachNameAreAccepted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ours, theirs := newClient(g), newJobClient(g)
	for length := 1; length <= 63; length++ {
		plain, dotted := strings.Repeat("n", length), strings.Repeat("9.", length)[:length-1]+"n"
		for _, name := range []string{plain, dotted} {
			g.Expect(try(t.Context(), ours, named(g, name, mostPods))).To(Succeed(), name)
			for _, spec := range []batchv1.JobSpec{parallel, mostPods} {
				for ordinal := range int64(4) { // Job 0 is that of the dry run.
					ctx, warnings := admission.WithWarnings(t.Context())
					job := jobs.Build(named(g, name, spec), "hash", ordinal, 0)
					g.Expect(try(ctx, theirs, job)).To(Succeed(), name)
					g.Expect(warnings.Texts()).To(BeEmpty(), name)
				}
			}
		}
	}
}

// The names of these ordinals have hashes of all lengths.
func TestJobsOfEachOrdinalAreAccepted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	theirs, longest := newJobClient(g), named(g, strings.Repeat("n", 63), mostPods)
	for ordinal := range int64(500) {
		g.Expect(try(t.Context(), theirs, jobs.Build(longest, "hash", ordinal, 0))).To(Succeed(), "ordinal %d", ordinal)
	}
}

// What the operator adds to a template must not be why the API server rejects it.
func TestUnsetRestartPolicyFits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec batchv1.JobSpec
		want corev1.RestartPolicy
	}{
		"parallel":             {parallel, corev1.RestartPolicyOnFailure},
		"podFailurePolicy":     {withRules, corev1.RestartPolicyNever},
		"backoffLimitPerIndex": {perIndex, corev1.RestartPolicyNever},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			sj := named(g, "emails", c.spec)
			g.Expect(try(t.Context(), newClient(g), sj.DeepCopy())).To(Succeed())
			job := jobs.Build(sj, "hash", 1, 0)
			g.Expect(try(t.Context(), newJobClient(g), job)).To(Succeed())
			g.Expect(job.Spec.Template.Spec.RestartPolicy).To(Equal(c.want))
		})
	}
}

// The operator leaves what a template sets, even if the API server rejects it.
func TestSetRestartPolicyIsJudgedAsOfAnyJob(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := named(g, "emails", withRules)
	sj.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	plain := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: sj.Namespace, Name: "emails"}, Spec: *sj.Spec.JobTemplate.Spec.DeepCopy(),
	}
	theirs := newJobClient(g)
	refused := admission.Judge(try(t.Context(), theirs, plain))
	g.Expect(refused.Text).To(ContainSubstring("spec.template.spec.restartPolicy"))
	g.Expect(admission.Judge(try(t.Context(), theirs, jobs.Build(sj, "hash", 1, 0)))).To(Equal(refused))
}
