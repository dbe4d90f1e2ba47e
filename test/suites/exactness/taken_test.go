// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

func TestNamesTakenByJobsOfOthers(t *testing.T) {
	t.Parallel()
	const due = 10
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	s, other := newScaledJob(t, namespace, "taken", 1, due), newScaledJob(t, namespace, "other", 1, due)
	s.awaitSubscription(t)
	var foreign []*batchv1.Job
	for ordinal, owners := range map[int64][]metav1.OwnerReference{
		1: nil,
		2: ownersOf(other),
		5: nil,
		7: ownersOf(other),
	} {
		job := jobs.Build(s.Object, "template", ordinal, 0)
		job.OwnerReferences = owners
		foreign = append(foreign, job)
	}
	// One of a UID that is gone: the garbage collector takes it away, or has done so.
	former := jobs.Build(s.Object, "template", 9, 0)
	former.OwnerReferences[0].UID = "former"
	for _, job := range append([]*batchv1.Job{former}, foreign...) {
		g.Expect(api.Create(t.Context(), job)).To(Succeed())
	}
	proxy.lag(longLag)

	g.Expect(s.PushTogether(t.Context(), due)).To(Succeed())
	prove(t, operator, witness.Row{
		Fault:   "Jobs of others have the next names, watches 0.5 s late",
		Promise: "they are left alone, and do not count",
	}, claim{scaledJob: s, jobs: due})
	for _, job := range foreign {
		var now batchv1.Job
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(job), &now)).To(Succeed())
		g.Expect(now.UID).To(Equal(job.UID))
		g.Expect(now.Generation).To(Equal(job.Generation))
		g.Expect(now.Annotations).To(Equal(job.Annotations))
	}
}

// ownersOf is what makes a Job one that the ScaledJob controls.
func ownersOf(s *scaledJob) []metav1.OwnerReference {
	return jobs.Build(s.Object, "template", 1, 0).OwnerReferences
}
