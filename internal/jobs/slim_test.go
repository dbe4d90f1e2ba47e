// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// owned returns a changed Job of the ScaledJob.
func owned(changes ...change) *batchv1.Job {
	job := Build(owner(), "hash", 1, 0)
	for _, change := range changes {
		change(job)
	}
	return job
}

// No decision may depend on fields that the cache leaves out.
func TestSlimKeepsWhatCounts(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	full := []*batchv1.Job{
		owned(readyPods(1)),
		owned(),
		owned(terminating),
		owned(with(batchv1.JobSuspended, corev1.ConditionFalse, 5), succeeded(20)),
		owned(succeeded(10)),
		owned(failed(30)),
		owned(func(job *batchv1.Job) { job.OwnerReferences[0].UID = "another" }),
		owned(func(job *batchv1.Job) { job.Annotations = nil }),
		owned(func(job *batchv1.Job) { job.Status.Active = 1 }),
		owned(func(job *batchv1.Job) { job.Status.Succeeded = 1 }),
		owned(func(job *batchv1.Job) { job.Status.Failed = 1 }),
		owned(func(job *batchv1.Job) { job.Status.Terminating = new(int32(1)) }),
		owned(func(job *batchv1.Job) {
			job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"pod"}}
		}),
	}
	var slim []*batchv1.Job
	for i, job := range full {
		job.UID, job.ResourceVersion = types.UID(rune('a'+i)), "7"
		before := job.DeepCopy()
		slimmed := must.Get(Slim(job))(g)
		g.Expect(job).To(Equal(before), "the original Job is unchanged")
		slim = append(slim, slimmed.(*batchv1.Job))
	}

	wide, narrow := Classify(full, "uid-1"), Classify(slim, "uid-1")
	uids := func(list []*batchv1.Job) (result []types.UID) {
		for _, job := range list {
			result = append(result, job.UID)
		}
		return result
	}
	g.Expect(uids(narrow.Active)).To(Equal(uids(wide.Active)))
	g.Expect(uids(narrow.Succeeded)).To(Equal(uids(wide.Succeeded)))
	g.Expect(uids(narrow.Failed)).To(Equal(uids(wide.Failed)))
	g.Expect(uids(narrow.Prunable(1, 0))).To(Equal(uids(wide.Prunable(1, 0))))
	g.Expect(narrow.Pending()).To(Equal(wide.Pending()))
	ordinal, _ := Ordinal(&slim[0].ObjectMeta)
	g.Expect(ordinal).To(Equal(int64(1)))
	g.Expect(narrow.HasTemplate("hash")).To(BeTrue())
	g.Expect(uids(narrow.Outdated("new", 8))).To(And(Equal(uids(wide.Outdated("new", 8))), HaveLen(7)))
	g.Expect(uids(Readiness{}.Unstarted(narrow.Active))).To(And(Equal(uids(Readiness{}.Unstarted(wide.Active))), HaveLen(3)))
	for i := range full {
		g.Expect(Ready(slim[i])).To(Equal(Ready(full[i])))
		g.Expect(ControllerUID(slim[i])).To(Equal(ControllerUID(full[i])))
		g.Expect([]string{slim[i].Namespace, slim[i].Name, slim[i].ResourceVersion}).
			To(Equal([]string{full[i].Namespace, full[i].Name, full[i].ResourceVersion}))
	}
}

func TestSlimDropsTheRest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	job := owned(func(job *batchv1.Job) {
		job.Annotations["note"] = "long"
		job.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody"}}
		job.CreationTimestamp, job.Spec.Suspend = metav1.Unix(7, 0), new(true)
	})

	slimmed, err := Slim(job)

	g.Expect(err).NotTo(HaveOccurred())
	slim := slimmed.(*batchv1.Job)
	g.Expect(slim.Spec).To(Equal(batchv1.JobSpec{Suspend: new(true)}))
	g.Expect(slim.CreationTimestamp).To(Equal(metav1.Unix(7, 0)))
	g.Expect(slim.Labels).To(BeEmpty())
	g.Expect(slim.ManagedFields).To(BeEmpty())
	g.Expect(slim.Annotations).To(HaveLen(4))
	g.Expect(slim.Annotations).To(HaveKeyWithValue(scaledjobv1.AnnotationOrdinal, "1"))
}

// The cache also transforms markers of missed deletions.
func TestSlimPassesOnOthers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	marker := toolscache.DeletedFinalStateUnknown{Key: "mail/emails"}
	g.Expect(Slim(marker)).To(Equal(marker))
}

// Users may write long strings wherever the cache keeps one.
func TestSlimIsBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	long := strings.Repeat("a", 1<<20)
	fill := func(job *batchv1.Job) {
		for _, key := range []string{
			scaledjobv1.AnnotationOrdinal, scaledjobv1.AnnotationOrdinalFloor,
			scaledjobv1.AnnotationTemplateHash, scaledjobv1.AnnotationGeneration,
		} {
			job.Annotations[key] = long
		}
		reference := &job.OwnerReferences[0]
		reference.APIVersion, reference.Kind, reference.Name = long, long, long
		other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: long, UID: types.UID(long)}
		job.OwnerReferences = append(job.OwnerReferences, other)
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, Message: long}}
	}
	slimmed := must.Get(Slim(owned(fill)))(g)
	encoded := must.Get(json.Marshal(slimmed))(g)
	g.Expect(len(encoded)).To(BeNumerically("<", 4<<10))
	g.Expect(ControllerUID(slimmed.(*batchv1.Job))).To(Equal(types.UID("uid-1")), "it still counts")
	g.Expect(Slim(slimmed)).To(Equal(slimmed), "once more changes nothing")

	unowned := owned(fill, func(job *batchv1.Job) { job.OwnerReferences[0].Controller = nil })
	slimmed = must.Get(Slim(unowned))(g)
	encoded = must.Get(json.Marshal(slimmed))(g)
	g.Expect(len(encoded)).To(BeNumerically("<", 512))
}

// Pods that have ended count, also those that Kubernetes has not counted yet.
func TestSlimCountsPodsThatHaveEnded(t *testing.T) {
	t.Parallel()
	ended := job("j")
	ended.Status = batchv1.JobStatus{Succeeded: 1, Failed: 2, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{
		Succeeded: []types.UID{"a"}, Failed: []types.UID{"b", "c"},
	}}
	slim, err := Slim(ended)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(slim.(*batchv1.Job).Status).To(Equal(batchv1.JobStatus{Succeeded: 1, Failed: 5}))
}
