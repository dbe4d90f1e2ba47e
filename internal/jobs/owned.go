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

// Owned holds the Jobs that one ScaledJob controls, by state. Each Job is in exactly one of the lists.
type Owned struct {
	// Active are the Jobs that have not finished: suspended, pending, running and terminating ones.
	Active []*batchv1.Job
	// Succeeded are the Jobs with the condition Complete.
	Succeeded []*batchv1.Job
	// Failed are the Jobs with the condition Failed.
	Failed []*batchv1.Job
}

// Classify returns those of the given Jobs that the owner controls, by state. It ignores labels, because users can
// copy, remove and leave them.
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

// Pending returns how many of the active Jobs have no ready Pod. It counts suspended Jobs.
func (c *Owned) Pending() int {
	pending := 0
	for _, job := range c.Active {
		if !Ready(job) {
			pending++
		}
	}
	return pending
}

// Suspended returns how many of the active Jobs are suspended.
func (c *Owned) Suspended() int {
	suspended := 0
	for _, job := range c.Active {
		if Suspended(job) {
			suspended++
		}
	}
	return suspended
}

// Ready reports whether the Job has a ready Pod. A suspended Job has none: Kubernetes deletes its Pods, and they may
// have put their messages back into the queue before its status shows that.
func Ready(job *batchv1.Job) bool { return hasReadyPod(job) && !Suspended(job) }

func hasReadyPod(job *batchv1.Job) bool { return job.Status.Ready != nil && *job.Status.Ready > 0 }

// Suspended reports whether the Job is suspended, by its template or by a controller that admits Jobs.
func Suspended(job *batchv1.Job) bool { return job.Spec.Suspend != nil && *job.Spec.Suspend }

// Outdated returns the active Jobs that were built from a template with another hash, and from an earlier generation of
// the spec than the given one. A cache that lags may show an earlier spec than the one of which a former leader made
// Jobs, and without an edit no Job is outdated. Outdated leaves out terminating Jobs, and Jobs without the annotations
// that identify their template.
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

// HasTemplate reports whether any of the Jobs was built from the template with this hash.
func (c *Owned) HasTemplate(hash string) bool {
	for job := range c.All {
		if HasTemplate(job, hash) {
			return true
		}
	}
	return false
}

// HasTemplate reports whether the Job was built from the template with this hash. It returns true if the annotation is
// missing, because an admission policy may remove annotations.
func HasTemplate(job *batchv1.Job, hash string) bool {
	stored, has := job.Annotations[scaledjobv1.AnnotationTemplateHash]
	return !has || stored == hash
}

// All iterates over all Jobs, finished or not.
func (c *Owned) All(yield func(*batchv1.Job) bool) {
	for _, list := range [][]*batchv1.Job{c.Active, c.Succeeded, c.Failed} {
		for _, job := range list {
			if !yield(job) {
				return
			}
		}
	}
}

// Owner returns the name and UID of the ScaledJob that controls the object, and false if there is none. It accepts an
// owner reference with any version of the API.
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

// ControllerUID returns the UID of the object that controls the Job; empty if there is none.
func ControllerUID(job *batchv1.Job) types.UID {
	controller := metav1.GetControllerOfNoCopy(job)
	if controller == nil {
		return ""
	}
	return controller.UID
}

// Finished reports whether the Job has the condition Complete or Failed.
func Finished(job *batchv1.Job) bool {
	return ending(job) != nil
}

// Succeeded reports whether the Job has the condition Complete.
func Succeeded(job *batchv1.Job) bool {
	end := ending(job)
	return end != nil && end.Type == batchv1.JobComplete
}

// ending returns the condition Complete or Failed of the Job; nil if the Job has not finished.
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

// Ordinal returns the verified ordinal of the Job with this metadata, and its AnnotationOrdinalFloor. The ordinal is 0,
// which no Job has, if its annotation is missing or does not match the Job's name: users can edit annotations, and copy
// Jobs under another name. It is at most maxOrdinal. The floor is 0, which has no effect, unless it is lower than the
// ordinal.
func Ordinal(job *metav1.ObjectMeta) (ordinal, floor int64) {
	owner := metav1.GetControllerOfNoCopy(job)
	ordinal, floor = AnnotatedOrdinal(job)
	if owner == nil || ordinal < 0 || ordinal > maxOrdinal || job.Name != Name(owner.Name, owner.UID, ordinal) {
		return 0, 0
	}
	if floor < 0 || floor >= ordinal {
		return ordinal, 0
	}
	return ordinal, floor
}

// AnnotatedOrdinal returns the ordinal and the floor from the annotations without verifying them; 0 if they are
// missing.
func AnnotatedOrdinal(job *metav1.ObjectMeta) (ordinal, floor int64) {
	return number(job, scaledjobv1.AnnotationOrdinal), number(job, scaledjobv1.AnnotationOrdinalFloor)
}

// number returns the value of a numeric annotation; 0 if it is missing or not a number.
func number(job *metav1.ObjectMeta, annotation string) int64 {
	value, err := strconv.ParseInt(job.Annotations[annotation], 10, 64)
	if err != nil {
		return 0
	}
	return value
}
