// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package jobs builds and names the Jobs of a ScaledJob, classifies them, selects the finished ones to prune, and
// strips them for the cache. It is pure: it neither reads from nor writes to the API server.
package jobs

import (
	"hash/fnv"
	"maps"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	// maxNameLength is the maximum length of a Job name, which the Job controller also uses as a Pod label.
	maxNameLength = 63
	// hashLength is the maximum length of a 64-bit number in base 36.
	hashLength = 13
	// maxOrdinal is higher than any real ordinal, and low enough that arithmetic does not overflow.
	maxOrdinal = 1 << 53
	// DryRunOrdinal is the ordinal for dry runs. No Job has it, so its name is never taken.
	DryRunOrdinal int64 = 0
)

// Build returns the Job with the given ordinal, built from the owner's template. hash is the hash of the template. floor
// is stored as AnnotationOrdinalFloor. The Job shares no memory with the owner.
func Build(owner *scaledjobv1.ScaledJob, hash string, ordinal, floor int64) *batchv1.Job {
	template := owner.Spec.JobTemplate.DeepCopy()
	ours := map[string]string{
		scaledjobv1.LabelScaledJob: owner.Name,
		scaledjobv1.LabelManagedBy: scaledjobv1.ManagedBy,
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        Name(owner.Name, owner.UID, ordinal),
			Namespace:   owner.Namespace,
			Labels:      merge(template.Labels, ours),
			Annotations: merge(template.Annotations, annotations(owner, hash, ordinal, floor)),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(owner, scaledjobv1.GroupVersion.WithKind("ScaledJob")),
			},
		},
		Spec: template.Spec,
	}
	pod := &job.Spec.Template
	pod.Labels = merge(pod.Labels, ours)
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	return job
}

// Name returns the name of the Job with the given ordinal. It always returns the same name for the same owner and
// ordinal, so that a create without an answer can be sent again without creating a second Job. The name depends on the
// owner's UID, so that a recreated ScaledJob does not reuse names.
func Name(owner string, uid types.UID, ordinal int64) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(string(uid) + "/" + strconv.FormatInt(ordinal, 10)))
	prefix := owner[:min(len(owner), maxNameLength-1-hashLength)]
	return strings.TrimRight(prefix, "-.") + "-" + strconv.FormatUint(hash.Sum64(), 36)
}

func annotations(owner *scaledjobv1.ScaledJob, hash string, ordinal, floor int64) map[string]string {
	return map[string]string{
		scaledjobv1.AnnotationOrdinal:      strconv.FormatInt(ordinal, 10),
		scaledjobv1.AnnotationOrdinalFloor: strconv.FormatInt(floor, 10),
		scaledjobv1.AnnotationTemplateHash: hash,
		scaledjobv1.AnnotationGeneration:   strconv.FormatInt(owner.Generation, 10),
	}
}

// merge returns the union of both maps. Where keys are equal, the value of the second map wins.
func merge(first, second map[string]string) map[string]string {
	union := make(map[string]string, len(first)+len(second))
	maps.Copy(union, first)
	maps.Copy(union, second)
	return union
}
