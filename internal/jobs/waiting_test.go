// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

func TestWaiting(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	began := at(100)
	record := Readiness{}
	list := make([]*batchv1.Job, 0, 10)
	add := func(name string, seen Observed, changes ...change) {
		record[job(name).UID] = seen
		list = append(list, job(name, changes...))
	}
	pod := func(job *batchv1.Job) { job.Status.Active = 1 }
	suspended := func(job *batchv1.Job) { job.Spec.Suspend = new(true) }
	outdated := func(job *batchv1.Job) {
		job.Annotations = map[string]string{scaledjobv1.AnnotationTemplateHash: "old"}
	}
	add("ready", Observed{Ready: true, EverReady: true, Since: began}, pod, readyPods(1))
	add("pending", Observed{Since: began}, pod)
	add("without-pod", Observed{Since: began})
	add("suspended", Observed{Since: began}, suspended)
	add("suspended-again", Observed{Since: began, EverReady: true}, suspended)
	add("outdated", Observed{Since: began}, pod, outdated)
	add("sidecar", Observed{Since: began, EverReady: true}, pod)
	add("crashing", Observed{Since: began}, func(job *batchv1.Job) { job.Status.Failed = 1 })
	add("going", Observed{Ready: true, Since: began.Add(-time.Hour)}, pod, func(job *batchv1.Job) { job.DeletionTimestamp = &metav1.Time{Time: began} })
	add("young", Observed{Since: began.Add(30 * time.Second)}, pod)

	all := Waiting{Unstarted: 7, WithoutPod: 1, Suspended: 2, Outdated: 1, Unended: 1, Terminating: 1}
	first := all
	first.Unstarted--
	for after, want := range map[time.Duration]struct {
		found Waiting
		next  time.Time
	}{
		StartTimeout - 1:   {Waiting{}, began.Add(StartTimeout)},
		StartTimeout:       {first, began.Add(StartTimeout + 30*time.Second)},
		2 * StartTimeout:   {all, time.Time{}},
		100 * StartTimeout: {all, time.Time{}},
	} {
		found, next := record.Waiting(list, "new", began.Add(after))
		g.Expect(found).To(Equal(want.found), "after %v", after)
		g.Expect(next).To(Equal(want.next), "after %v", after)
	}
}
