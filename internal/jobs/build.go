// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package jobs knows what a Job of a ScaledJob looks like: how it is built and named, which of them have finished and how, which
// of those to drop, and what the cache must keep of them. It is pure: it neither reads nor writes the API server.
package jobs

import (
	"encoding/json"
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
	// maxNameLength is the longest name that the API server takes for a Job, since it becomes a Pod label.
	maxNameLength = 63
	// hashLength is the longest base-36 form of 64 bits.
	hashLength = 13
	// maxOrdinal is more than any ScaledJob gets to, and far from where numbers overflow.
	maxOrdinal = 1 << 53
	// DryRunOrdinal is an ordinal that no Job ever gets, so that its name is free for a dry run.
	DryRunOrdinal int64 = 0
)

// Build makes the Job with the given ordinal from the owner's template; the floor is that of AnnotationOrdinalFloor. It shares no memory
// with the owner.
func Build(owner *scaledjobv1.ScaledJob, ordinal, floor int64) *batchv1.Job {
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
			Annotations: merge(template.Annotations, annotations(owner, ordinal, floor)),
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

// Name is the name of the Job with the given ordinal. The same owner and ordinal always give the same name, so that a create whose
// answer got lost can be sent again without making a second Job; the owner's UID keeps a recreated ScaledJob clear of old names.
func Name(owner string, uid types.UID, ordinal int64) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(string(uid) + "/" + strconv.FormatInt(ordinal, 10)))
	prefix := owner[:min(len(owner), maxNameLength-1-hashLength)]
	return strings.TrimRight(prefix, "-.") + "-" + strconv.FormatUint(hash.Sum64(), 36)
}

// TemplateHash tells two job templates apart.
func TemplateHash(template *batchv1.JobTemplateSpec) string {
	hash := fnv.New64a()
	// Encoding API types cannot fail, and sorts the keys of maps.
	_ = json.NewEncoder(hash).Encode(template)
	return strconv.FormatUint(hash.Sum64(), 36)
}

func annotations(owner *scaledjobv1.ScaledJob, ordinal, floor int64) map[string]string {
	return map[string]string{
		scaledjobv1.AnnotationOrdinal:      strconv.FormatInt(ordinal, 10),
		scaledjobv1.AnnotationOrdinalFloor: strconv.FormatInt(floor, 10),
		scaledjobv1.AnnotationTemplateHash: TemplateHash(&owner.Spec.JobTemplate),
		scaledjobv1.AnnotationGeneration:   strconv.FormatInt(owner.Generation, 10),
	}
}

// merge is the union of both maps; where they differ, the second wins.
func merge(first, second map[string]string) map[string]string {
	union := make(map[string]string, len(first)+len(second))
	maps.Copy(union, first)
	maps.Copy(union, second)
	return union
}
