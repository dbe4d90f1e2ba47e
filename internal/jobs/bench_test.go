// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func BenchmarkBuild(b *testing.B) {
	owner := owner()
	b.ReportAllocs()
	for b.Loop() {
		Build(owner, "hash", 1000, 998)
	}
}

// BenchmarkCount measures the count of 10,000 Jobs of a ScaledJob, of which every tenth is unfinished.
func BenchmarkCount(b *testing.B) {
	all := make([]*batchv1.Job, 10_000)
	for i := range all {
		all[i] = Build(owner(), "hash", int64(i), 0)
		all[i].UID = types.UID(fmt.Sprint("job-", i))
		all[i].OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner(), batchv1.SchemeGroupVersion.WithKind("ScaledJob"))}
		if i%10 > 0 {
			all[i].Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}
	}
	var tally Tally
	b.ReportAllocs()
	for b.Loop() {
		owned := Classify(all, owner().UID)
		tally.Count(&owned)
	}
}
