// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// Owned sorts the Jobs of one ScaledJob by what became of them. Each Job is in exactly one of the three lists.
type Owned struct {
	// Active are the Jobs that have not finished: suspended, pending, running and terminating ones.
	Active []*batchv1.Job
	// Succeeded are the Jobs that completed.
	Succeeded []*batchv1.Job
	// Failed are the Jobs that failed for good.
	Failed []*batchv1.Job
}

// Classify sorts those of the given Jobs that the owner controls. Labels don't matter: they can be copied, removed and left over.
func Classify(jobs []*batchv1.Job, owner types.UID) Owned {
	var owned Owned
	for _, job := range jobs {
		if ControllerUID(job) != owner {
			continue
		}
		switch {
		case !Finished(job):
			owned.Active = append(owned.Active, job)
		case Succeeded(job):
			owned.Succeeded = append(owned.Succeeded, job)
		default:
			owned.Failed = append(owned.Failed, job)
		}
	}
	return owned
}

// Pending is how many of the active Jobs have no ready Pod.
func (c *Owned) Pending() int {
	pending := 0
	for _, job := range c.Active {
		if !Ready(job) {
			pending++
		}
	}
	return pending
}

// Ready says whether the Job has a ready Pod.
func Ready(job *batchv1.Job) bool { return job.Status.Ready != nil && *job.Status.Ready > 0 }

// Outdated are the active Jobs of another template than the one with this hash that were made before this generation of the spec. Not among
// them are Jobs that are going already, and those whose annotations do not tell what they were made from.
func (c *Owned) Outdated(hash string, generation int64) []*batchv1.Job {
	var outdated []*batchv1.Job
	for _, job := range c.Active {
		madeFrom := number(&job.ObjectMeta, scaledjobv1.AnnotationGeneration)
		if job.DeletionTimestamp == nil && !HasTemplate(job, hash) && madeFrom > 0 && madeFrom < generation {
			outdated = append(outdated, job)
		}
	}
	return outdated
}

// HasTemplate says whether any of the Jobs was built from the template with this hash.
func (c *Owned) HasTemplate(hash string) bool {
	for job := range c.All {
		if HasTemplate(job, hash) {
			return true
		}
	}
	return false
}

// HasTemplate says whether the Job was built from the template with this hash. It is taken for so where the annotation that tells it is
// missing, since an admission policy may drop annotations.
func HasTemplate(job *batchv1.Job, hash string) bool {
	told, has := job.Annotations[scaledjobv1.AnnotationTemplateHash]
	return !has || told == hash
}

// All goes through every Job, finished or not.
func (c *Owned) All(yield func(*batchv1.Job) bool) {
	for _, list := range [][]*batchv1.Job{c.Active, c.Succeeded, c.Failed} {
		for _, job := range list {
			if !yield(job) {
				return
			}
		}
	}
}

// Owner is the ScaledJob that controls the object, and false where none does. Any version of the API may have written the reference.
func Owner(object metav1.Object) (types.NamespacedName, types.UID, bool) {
	controller := metav1.GetControllerOfNoCopy(object)
	if controller == nil || controller.Kind != "ScaledJob" {
		return types.NamespacedName{}, "", false
	}
	version, err := schema.ParseGroupVersion(controller.APIVersion)
	if err != nil || version.Group != scaledjobv1.GroupVersion.Group {
		return types.NamespacedName{}, "", false
	}
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: controller.Name}, controller.UID, true
}

// ControllerUID is the UID of the object that controls the Job, and empty where none does.
func ControllerUID(job *batchv1.Job) types.UID {
	controller := metav1.GetControllerOfNoCopy(job)
	if controller == nil {
		return ""
	}
	return controller.UID
}

// Finished says whether the Job has completed or failed for good.
func Finished(job *batchv1.Job) bool {
	return ending(job) != nil
}

// Succeeded says whether the Job has completed.
func Succeeded(job *batchv1.Job) bool {
	end := ending(job)
	return end != nil && end.Type == batchv1.JobComplete
}

// ending is the condition that ended the Job, and nil while the Job has not finished.
func ending(job *batchv1.Job) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		condition := &job.Status.Conditions[i]
		final := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		if final && condition.Status == corev1.ConditionTrue {
			return condition
		}
	}
	return nil
}

// Ordinal is the ordinal of the Job with this metadata, and its AnnotationOrdinalFloor. The ordinal is 0, which no Job has, where its
// annotation is missing, or where the Job's name is not the one that follows from it: users can edit annotations, and copy Jobs with all
// that they have but the name. It is never more than maxOrdinal, however it was forged. The floor is 0, which says nothing, unless it is
// below the ordinal, as a true one is.
func Ordinal(job *metav1.ObjectMeta) (ordinal, floor int64) {
	owner := metav1.GetControllerOfNoCopy(job)
	ordinal, floor = ToldOrdinal(job)
	if owner == nil || ordinal < 0 || ordinal > maxOrdinal || job.Name != Name(owner.Name, owner.UID, ordinal) {
		return 0, 0
	}
	if floor < 0 || floor >= ordinal {
		return ordinal, 0
	}
	return ordinal, floor
}

// ToldOrdinal is what the annotations say of the ordinal and the floor, true or not, and 0 where they say nothing.
func ToldOrdinal(job *metav1.ObjectMeta) (ordinal, floor int64) {
	return number(job, scaledjobv1.AnnotationOrdinal), number(job, scaledjobv1.AnnotationOrdinalFloor)
}

// number is that of an annotation, and 0 where there is none.
func number(job *metav1.ObjectMeta, annotation string) int64 {
	value, err := strconv.ParseInt(job.Annotations[annotation], 10, 64)
	if err != nil {
		return 0
	}
	return value
}
