// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// strangers are what users make of the owner references of a Job that they copy.
// Whoever has the UID of a ScaledJob for its controller belongs to it, whatever
// else the reference says.
var strangers = map[string]struct {
	change func(owners []metav1.OwnerReference) []metav1.OwnerReference
	ours   bool
}{
	"copy": {func(owners []metav1.OwnerReference) []metav1.OwnerReference { return owners }, true},
	"other-kind": {func(owners []metav1.OwnerReference) []metav1.OwnerReference {
		owners[0].APIVersion, owners[0].Kind = "example.com/v1", "Other"
		return owners
	}, true},
	"two-owners": {func(owners []metav1.OwnerReference) []metav1.OwnerReference {
		return append(owners, metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Other", Name: "other", UID: "other"})
	}, true},
	"no-controller": {func(owners []metav1.OwnerReference) []metav1.OwnerReference {
		owners[0].Controller = nil
		return owners
	}, false},
	"controller-false": {func(owners []metav1.OwnerReference) []metav1.OwnerReference {
		owners[0].Controller = new(false)
		return owners
	}, false},
	"no-owner": {func([]metav1.OwnerReference) []metav1.OwnerReference { return nil }, false},
}

func TestStrangersAmongTheJobs(t *testing.T) {
	skip.UnderShort(t, "TestJobsAreTamperedWith has forged labels and annotations")
	t.Parallel()
	const due, finished = 10, 6
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	s := newScaledJob(t, namespace, "copied", 1, due)
	s.awaitSubscription(t)
	g.Expect(s.PushTogether(t.Context(), 1)).To(Succeed())
	g.Expect(s.Witness.AwaitCreated(t.Context(), 1)).To(Succeed())
	original := s.Witness.Unfinished()[0]
	s.CountPushed(due) // the copies are due as well

	var others []*batchv1.Job
	for name, stranger := range strangers {
		job := s.copyJob(t, original, name, stranger.change)
		if !stranger.ours {
			g.Expect(s.end(t.Context(), job.Name)).To(Succeed())
			others = append(others, job)
		}
	}
	// The garbage collector takes away what names an owner that is not there.
	lost := s.copyJob(t, original, "wrong-name", func(owners []metav1.OwnerReference) []metav1.OwnerReference {
		owners[0].Name = "none"
		return owners
	})
	g.Eventually(s.Witness.Unfinished).WithTimeout(timeout).ShouldNot(ContainElement(lost.Name))
	proxy.lag(longLag)

	g.Expect(s.storm(t.Context())).To(Succeed())
	g.Expect(s.Witness.AwaitCreated(t.Context(), due+1)).To(Succeed())
	for _, name := range s.Witness.Unfinished()[:finished] {
		g.Expect(s.finish(t.Context(), name)).To(Succeed())
	}
	prove(t, operator, witness.Row{
		Fault:   "Jobs are copied by users, some with owner references that are wrong, watches 0.5 s late",
		Promise: "Jobs count if the ScaledJob's UID controls them, and no others are touched",
	}, claim{scaledJob: s, jobs: due + 1 + finished})
	for _, job := range others {
		var now batchv1.Job
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(job), &now)).To(Succeed(), job.Name)
		g.Expect(now.UID).To(Equal(job.UID))
	}
}

// copyJob creates a Job like the original, which has these owners instead.
func (s *scaledJob) copyJob(
	t *testing.T, original, name string, change func([]metav1.OwnerReference) []metav1.OwnerReference,
) *batchv1.Job {
	t.Helper()
	g := NewWithT(t)
	var job batchv1.Job
	g.Expect(api.Get(t.Context(), client.ObjectKey{Namespace: s.Object.Namespace, Name: original}, &job)).To(Succeed())
	stranger := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: name, Labels: job.Labels, Annotations: job.Annotations,
			OwnerReferences: change(job.OwnerReferences),
		},
		Spec: s.Object.Spec.JobTemplate.Spec,
	}
	g.Expect(api.Create(t.Context(), stranger)).To(Succeed(), name)
	return stranger
}
