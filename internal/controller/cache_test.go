// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/consistency"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/requests"
)

// owned is a Job of the ScaledJob, changed.
func owned(changes ...func(*batchv1.Job)) *batchv1.Job {
	job := jobs.Build(scaledJob(), 1, 0)
	for _, change := range changes {
		change(job)
	}
	return job
}

// Whatever is decided on must not depend on what the cache leaves out.
func TestSlimJobKeepsWhatCounts(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	finishedAt := func(kind batchv1.JobConditionType, second int64) func(*batchv1.Job) {
		return func(job *batchv1.Job) {
			job.Status.Conditions = []batchv1.JobCondition{
				{Type: batchv1.JobSuspended, Status: corev1.ConditionFalse},
				{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(second, 0))},
			}
		}
	}
	full := []*batchv1.Job{
		owned(func(job *batchv1.Job) { job.Status.Ready = new(int32(1)) }),
		owned(),
		owned(func(job *batchv1.Job) { job.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }),
		owned(finishedAt(batchv1.JobComplete, 20)),
		owned(finishedAt(batchv1.JobComplete, 10)),
		owned(finishedAt(batchv1.JobFailed, 30)),
		owned(func(job *batchv1.Job) { job.OwnerReferences[0].UID = "another" }),
		owned(func(job *batchv1.Job) { job.Annotations = nil }),
	}
	var slim []*batchv1.Job
	for i, job := range full {
		job.UID, job.ResourceVersion = types.UID(rune('a'+i)), "7"
		before := job.DeepCopy()
		slimmed, err := slimJob(job)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(job).To(Equal(before), "others may hold it")
		slim = append(slim, slimmed.(*batchv1.Job))
	}

	wide, narrow := jobs.Take(full, "uid-1"), jobs.Take(slim, "uid-1")
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
	ordinal, _ := jobs.Ordinal(&slim[0].ObjectMeta)
	g.Expect(ordinal).To(Equal(int64(1)))
	g.Expect(narrow.HasTemplate(jobs.TemplateHash(&scaledJob().Spec.JobTemplate))).To(BeTrue())
	g.Expect(uids(narrow.Outdated("new", 2))).To(Equal(uids(wide.Outdated("new", 2))))
	for i := range full {
		g.Expect(requests.JobChanged().Update(event.UpdateEvent{ObjectOld: full[i], ObjectNew: slim[i]})).To(BeFalse())
		g.Expect(jobs.ControllerUID(slim[i])).To(Equal(jobs.ControllerUID(full[i])))
		g.Expect([]string{slim[i].Namespace, slim[i].Name, slim[i].ResourceVersion}).
			To(Equal([]string{full[i].Namespace, full[i].Name, full[i].ResourceVersion}))
	}
}

func TestSlimJobDropsTheRest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	job := owned(func(job *batchv1.Job) {
		job.Annotations["note"] = "long"
		job.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody"}}
	})

	slimmed, err := slimJob(job)

	g.Expect(err).NotTo(HaveOccurred())
	slim := slimmed.(*batchv1.Job)
	g.Expect(slim.Spec).To(Equal(batchv1.JobSpec{}))
	g.Expect(slim.Labels).To(BeEmpty())
	g.Expect(slim.ManagedFields).To(BeEmpty())
	g.Expect(slim.Annotations).To(HaveLen(4))
	g.Expect(slim.Annotations).To(HaveKeyWithValue(scaledjobv1.AnnotationOrdinal, "1"))
}

// The cache passes on markers of missed deletions as well.
func TestSlimJobPassesOnOthers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	marker := toolscache.DeletedFinalStateUnknown{Key: "mail/emails"}
	g.Expect(slimJob(marker)).To(Equal(marker))
}

func TestCacheOptions(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	stores := &consistency.Stores{}

	options := CacheOptions(stores, nil)
	g.Expect(options.DefaultNamespaces).To(BeNil(), "all of them")
	g.Expect(options.ReaderFailOnMissingInformer).To(BeTrue())
	store := options.NewInformer(nil, &batchv1.Job{}, 0, toolscache.Indexers{}).GetStore()
	g.Expect(store.Replace(nil, "7")).To(Succeed())
	g.Expect(stores.Check()).To(Succeed(), "the gate has the store")

	g.Expect(CacheOptions(stores, []string{"mail", "images"}).DefaultNamespaces).To(And(HaveLen(2), HaveKey("mail"), HaveKey("images")))
}
