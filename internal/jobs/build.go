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
	// maxNameLength is the maximum length of a Job name. Kubernetes names the Pods of an Indexed Job NAME-INDEX-XXXXX and
	// their hosts NAME-INDEX, each with at most 63 characters, and an index has up to 10 digits.
	maxNameLength = 46
	// hashLength is the maximum length of a 64-bit number in base 36.
	hashLength = 13
	// maxOrdinal is higher than any real ordinal, and low enough that arithmetic does not overflow.
	maxOrdinal = 1 << 53
	// DryRunOrdinal is the ordinal for dry runs. No Job has it, so its name is never taken.
	DryRunOrdinal int64 = 0
)

// Build returns the Job with the given ordinal, built from the owner's template. hash is the hash of the template.
// floor is stored as AnnotationOrdinalFloor. The Job shares no memory with the owner.
func Build(owner *scaledjobv1.ScaledJob, hash string, ordinal, floor int64) *batchv1.Job {
	template := owner.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        Name(owner.Name, owner.UID, ordinal),
			Namespace:   owner.Namespace,
			Labels:      labels(owner, template.Labels),
			Annotations: annotations(owner, template.Annotations, hash, ordinal, floor),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(owner, scaledjobv1.GroupVersion.WithKind("ScaledJob")),
			},
		},
		Spec: template.Spec,
	}
	pod := &job.Spec.Template
	pod.Labels = labels(owner, pod.Labels)
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = restartPolicy(&job.Spec)
	}
	variables := environment(owner, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	withEnvironment(pod.Spec.InitContainers, variables)
	withEnvironment(pod.Spec.Containers, variables)
	return job
}

// Name returns the name of the Job with the given ordinal. It always returns the same name for the same owner and
// ordinal, so that a create without an answer can be sent again without creating a second Job. The name depends on the
// owner's UID, so that a recreated ScaledJob does not reuse names. It is a DNS label, and the names of all Jobs of an
// owner have the same length, so that the API server accepts either all of them or none.
func Name(owner string, uid types.UID, ordinal int64) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(string(uid) + "/" + strconv.FormatInt(ordinal, 10)))
	digits := strconv.FormatUint(hash.Sum64(), 36)
	prefix := strings.ReplaceAll(owner[:min(len(owner), maxNameLength-1-hashLength)], ".", "-")
	return strings.TrimRight(prefix, "-") + "-" + strings.Repeat("0", hashLength-len(digits)) + digits
}

// restartPolicy returns the restart policy of Pods whose template sets none. It is Never if the Job has a field that
// works with Never only: the API server rejects podFailurePolicy with OnFailure, and backoffLimitPerIndex would have no
// effect.
func restartPolicy(spec *batchv1.JobSpec) corev1.RestartPolicy {
	if spec.PodFailurePolicy != nil || spec.BackoffLimitPerIndex != nil {
		return corev1.RestartPolicyNever
	}
	return corev1.RestartPolicyOnFailure
}

// labels returns the labels of a template and of the operator. A template may set LabelManagedBy.
func labels(owner *scaledjobv1.ScaledJob, template map[string]string) map[string]string {
	all := map[string]string{scaledjobv1.LabelManagedBy: scaledjobv1.ManagedBy}
	maps.Copy(all, template)
	all[scaledjobv1.LabelScaledJob] = owner.Name
	return all
}

// annotations returns the annotations of a template and of the operator.
func annotations(owner *scaledjobv1.ScaledJob, template map[string]string, hash string, ordinal, floor int64) map[string]string {
	all := map[string]string{}
	maps.Copy(all, template)
	all[scaledjobv1.AnnotationOrdinal] = strconv.FormatInt(ordinal, 10)
	all[scaledjobv1.AnnotationOrdinalFloor] = strconv.FormatInt(floor, 10)
	all[scaledjobv1.AnnotationTemplateHash] = hash
	all[scaledjobv1.AnnotationGeneration] = strconv.FormatInt(owner.Generation, 10)
	return all
}
