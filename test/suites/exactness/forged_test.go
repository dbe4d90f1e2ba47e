// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"math"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// A user of one namespace forges a Job whose number is near the largest there is. ScaledJobs of other namespaces are
// not concerned.
func TestForgedNumberOfOneNamespaceDoesNotStopAnother(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hostile, other := newNamespace(t), newNamespace(t)
	startOperator(t, startProxy(t), []string{hostile, other})
	target := newScaledJob(t, hostile, "target", 1, 10)
	victim := newScaledJob(t, other, "victim", 1, 10)
	target.awaitSubscription(t)
	victim.awaitSubscription(t)
	const number = math.MaxInt64 - 1
	owner := target.Object
	g.Expect(api.Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: hostile, Name: jobs.Name(owner.Name, owner.UID, number),
			Annotations: map[string]string{
				scaledjobv1.AnnotationOrdinal:      strconv.FormatInt(number, 10),
				scaledjobv1.AnnotationOrdinalFloor: strconv.FormatInt(number-1, 10),
			},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(owner, scaledjobv1.GroupVersion.WithKind("ScaledJob")),
			},
		},
		Spec: owner.Spec.JobTemplate.Spec,
	})).To(Succeed())
	target.CountPushed(1) // the forged one is due as well
	g.Expect(target.Witness.AwaitCreated(t.Context(), 1)).To(Succeed())
	g.Expect(target.PushTogether(t.Context(), 5)).To(Succeed())
	g.Expect(victim.PushTogether(t.Context(), 5)).To(Succeed())
	g.Eventually(victim.Witness.Created).WithTimeout(timeout / 6).Should(Equal(5))
}
