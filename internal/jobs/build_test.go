// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"fmt"
	"math"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// owner returns a ScaledJob with a template that sets every field that Build has to keep, add or remove.
func owner() *scaledjobv1.ScaledJob {
	return &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mail", Name: "emails", UID: "uid-1", Generation: 7},
		Spec: scaledjobv1.ScaledJobSpec{
			JobTemplate: &batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Name:            "a-name",
					GenerateName:    "a-prefix-",
					Namespace:       "elsewhere",
					Finalizers:      []string{"example.com/finalizer"},
					OwnerReferences: []metav1.OwnerReference{{Kind: "Other", Name: "other", UID: "other"}},
					Labels:          map[string]string{"team": "mail", scaledjobv1.LabelScaledJob: "another", scaledjobv1.LabelManagedBy: "somebody"},
					Annotations:     map[string]string{"note": "of the Job"},
				},
				Spec: batchv1.JobSpec{
					BackoffLimit: new(int32(2)),
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{
							Labels:      map[string]string{"app": "worker", scaledjobv1.LabelScaledJob: "another"},
							Annotations: map[string]string{"note": "of the Pod"},
						},
						Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "worker:1"}}},
					},
				},
			},
		},
	}
}

func TestBuildMetadata(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	owner := owner()

	job := Build(owner, "hash", 3, 2)

	// No other metadata of the template is copied: neither name, namespace, finalizers nor owners.
	g.Expect(job.ObjectMeta).To(Equal(metav1.ObjectMeta{
		Namespace: "mail",
		Name:      Name("emails", "uid-1", 3),
		Labels: map[string]string{
			"team":                         "mail",
			"batch.miracle.dev/scaledjob":  "emails",
			"app.kubernetes.io/managed-by": "somebody",
		},
		Annotations: map[string]string{
			"note":                            "of the Job",
			"batch.miracle.dev/ordinal":       "3",
			"batch.miracle.dev/ordinal-floor": "2",
			"batch.miracle.dev/template":      "hash",
			"batch.miracle.dev/generation":    "7",
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "batch.miracle.dev/v1", Kind: "ScaledJob", Name: "emails", UID: "uid-1",
			Controller: new(true), BlockOwnerDeletion: new(true),
		}},
	}))
}

func TestBuildSpec(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	owner := owner()

	job := Build(owner, "hash", 3, 0)

	want := owner.Spec.JobTemplate.Spec.DeepCopy()
	want.Template.Labels = map[string]string{
		"app":                          "worker",
		"batch.miracle.dev/scaledjob":  "emails",
		"app.kubernetes.io/managed-by": "scaledjob-operator",
	}
	want.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	want.Template.Spec.Containers[0].Env = environment(owner, 1)
	g.Expect(job.Spec).To(Equal(*want))
}

func TestBuildRestartPolicy(t *testing.T) {
	const unset, never, onFailure corev1.RestartPolicy = "", corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure
	plain := batchv1.JobSpec{}
	ruled := batchv1.JobSpec{PodFailurePolicy: &batchv1.PodFailurePolicy{}}
	perIndex := batchv1.JobSpec{BackoffLimitPerIndex: new(int32(1))}
	type row struct {
		spec      batchv1.JobSpec
		set, want corev1.RestartPolicy
	}
	bubble.Each(t, map[string]row{
		"unset":                                {plain, unset, onFailure},
		"unset, with podFailurePolicy":         {ruled, unset, never},
		"unset, with backoffLimitPerIndex":     {perIndex, unset, never},
		"Never":                                {plain, never, never},
		"OnFailure, with podFailurePolicy":     {ruled, onFailure, onFailure},
		"OnFailure, with backoffLimitPerIndex": {perIndex, onFailure, onFailure},
	}, func(_ *testing.T, g Gomega, c row) {
		owner := owner()
		owner.Spec.JobTemplate.Spec = c.spec
		owner.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = c.set
		g.Expect(Build(owner, "hash", 1, 0).Spec.Template.Spec.RestartPolicy).To(Equal(c.want))
	})
}

// A Job must not share memory with the owner, which belongs to the cache: changes of the Job would change the cache.
func TestBuildSharesNoMemory(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	owner := owner()
	before := owner.DeepCopy()
	job := Build(owner, "hash", 1, 0)

	job.Labels["new"] = "label"
	job.Annotations["new"] = "annotation"
	*job.OwnerReferences[0].Controller = false
	*job.Spec.BackoffLimit = 9
	pod := &job.Spec.Template
	pod.Labels["new"] = "label"
	pod.Annotations["new"] = "annotation"
	pod.Spec.Containers[0].Image = "another"

	g.Expect(owner).To(Equal(before))

	// Nor may changes of the owner change a Job, or one Job change another.
	job = Build(owner, "hash", 1, 0)
	again := job.DeepCopy()
	Build(owner, "hash", 2, 0).Labels["new"] = "label"
	owner.Spec.JobTemplate.Labels["new"] = "label"
	owner.Spec.JobTemplate.Spec.Template.Annotations["new"] = "annotation"
	g.Expect(job).To(Equal(again))
}

// Names of the same ScaledJob have the same length, whatever the ScaledJob is named: the API server accepts names of
// 1 to 253 characters, and the CRD those of up to 63.
func TestNameOfOddOwners(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	owners := []string{"a.b-", "a--", "0", "0.0", strings.Repeat("a", 48) + "-b", strings.Repeat("a", 31) + strings.Repeat("-", 22) + "b"}
	for length := 1; length <= 253; length++ {
		dotted := strings.Repeat("1.", length)[:length-1] + "a"
		owners = append(owners, strings.Repeat("a", length), dotted)
	}
	for _, owner := range owners {
		length := len(Name(owner, "uid", DryRunOrdinal))
		g.Expect(length).To(Equal(min(len(strings.TrimRight(owner[:min(len(owner), 32)], "-.")), 32)+14), owner)
		for ordinal := int64(1); ordinal <= 20; ordinal++ {
			name := Name(owner, "uid", ordinal)
			expectJobName(g, name)
			g.Expect(name).To(HaveLen(length), owner)
		}
	}
}

// About every 4th hash is shorter than the others in base 36, and one in 140 by two digits.
func TestNamesOfManyOrdinals(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const ordinals = 100_000
	names := make(map[string]struct{}, ordinals)
	for ordinal := range int64(ordinals) {
		name := Name("emails", "5f0ee5c9-5b5c-4d4b-9b1e-0d4e6c1f8a11", ordinal)
		if len(name) != len("emails-")+13 {
			t.Fatalf("ordinal %d has the name %s", ordinal, name)
		}
		names[name] = struct{}{}
	}
	g.Expect(names).To(HaveLen(ordinals), "each ordinal has its own name")
}

func TestNameStaysTheSame(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	// A version of the operator with other names could create the Jobs of its predecessor a second time.
	g.Expect(Name("emails", "5f0ee5c9-5b5c-4d4b-9b1e-0d4e6c1f8a11", 1)).To(Equal("emails-0r2gjxbsz9jt9"))
	g.Expect(Name("mail.v1."+strings.Repeat("x", 55), "5f0ee5c9-5b5c-4d4b-9b1e-0d4e6c1f8a11", 2)).To(HavePrefix("mail-v1-" + strings.Repeat("x", 24) + "-"))
}

// expectJobName expects that the API server accepts this as the name of a Job, also of an Indexed one with the most
// completions: the name of a Pod, with everything that Kubernetes appends to that of the Job, is a DNS label too.
func expectJobName(g Gomega, name string) {
	g.Expect(validation.IsDNS1123Label(name)).To(BeEmpty(), name)
	g.Expect(validation.IsDNS1123Label(fmt.Sprintf("%s-%d-abcde", name, math.MaxInt32-1))).To(BeEmpty(), name)
}
