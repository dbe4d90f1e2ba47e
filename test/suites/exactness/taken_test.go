// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestNamesTakenByJobsOfOthers(t *testing.T) {
	t.Parallel()
	const due = 10
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	s, other := newScaledJob(t, namespace, "taken", 1, due), newScaledJob(t, namespace, "other", 1, due)
	s.AwaitSubscription()
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

	s.PushTogether(due)
	requireExactly(t, operator, jobwatch.Row{
		Fault:   "Jobs of others have the next names, watches 0.5 s late",
		Promise: "they are left alone, and do not count",
	}, want{scaledJob: s, jobs: due})
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

// ordinal sets the annotation with the number of a Job.
func ordinal(value any) map[string]any { return annotation(scaledjobv1.AnnotationOrdinal, value) }

// floor sets the annotation that says which Jobs came before.
func floor(value any) map[string]any { return annotation(scaledjobv1.AnnotationOrdinalFloor, value) }

func annotation(key string, value any) map[string]any {
	return map[string]any{"annotations": map[string]any{key: value}}
}

// tamperings are merge patches of the metadata of Jobs, one for each, by the name of the ScaledJob that they belong to.
var tamperings = map[string][]map[string]any{
	"removed": {
		{"labels": nil},
		{"annotations": nil},
		annotation(scaledjobv1.AnnotationTemplateHash, nil),
		ordinal(nil),
		floor(nil),
	},
	"forged": {
		ordinal("1"), ordinal("2"), ordinal("7"), ordinal("0"), ordinal("-1"), ordinal("abc"), ordinal("9223372036854775808"),
		floor("9223372036854775807"), floor("-1"), floor("abc"),
	},
	"forged-largest": {ordinal("9223372036854775807"), floor("9223372036854775807")},
}

func TestJobsAreTamperedWith(t *testing.T) {
	t.Parallel()
	const before, after, rounds = 10, 10, 3
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	var wants []want
	for name := range tamperings {
		s := newScaledJob(t, namespace, name, 1, 100)
		s.PushTogether(before)
		wants = append(wants, want{scaledJob: s, jobs: before + rounds*after})
	}
	for _, c := range wants {
		g.Expect(c.scaledJob.Jobs.AwaitCreated(t.Context(), before)).To(Succeed())
		c.scaledJob.tamper(t, tamperings[c.scaledJob.Object.Name])
	}
	// The next operator knows of the Jobs only what it sees.
	g.Expect(operator.Kill()).To(Succeed())
	operator = startOperator(t, proxy, []string{namespace})
	for _, c := range wants {
		c.scaledJob.AwaitSubscription()
	}
	proxy.lag(shortLag)

	for round := range rounds {
		for _, c := range wants {
			c.scaledJob.PushTogether(after)
		}
		for _, c := range wants {
			g.Eventually(c.scaledJob.Jobs.Created).WithTimeout(timeout).
				Should(BeNumerically(">=", before+(round+1)*after), "Jobs of %s", c.scaledJob.Object.Name)
		}
	}
	requireExactly(t, operator, jobwatch.Row{
		Fault:   "labels and annotations of running Jobs are removed or forged, and the operator is killed, watches 0.1 s late",
		Promise: "the Jobs still count, and the others are created",
	}, wants...)
}

// tamper changes the metadata of as many Jobs as there are patches.
func (s *scaledJob) tamper(t *testing.T, patches []map[string]any) {
	t.Helper()
	g := NewWithT(t)
	jobs := s.Jobs.Unfinished()
	for i, metadata := range patches {
		patch := must.Get(json.Marshal(map[string]any{"metadata": metadata}))(g)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.Object.Namespace, Name: jobs[i]}}
		g.Expect(api.Patch(t.Context(), job, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	}
}

// A user of one namespace forges a Job whose number is near the largest there is. ScaledJobs of other namespaces are
// not concerned.
func TestForgedNumberOfOneNamespaceDoesNotStopAnother(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hostile, other := newNamespace(t), newNamespace(t)
	startOperator(t, startProxy(t), []string{hostile, other})
	target := newScaledJob(t, hostile, "target", 1, 10)
	victim := newScaledJob(t, other, "victim", 1, 10)
	target.AwaitSubscription()
	victim.AwaitSubscription()
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
	g.Expect(target.Jobs.AwaitCreated(t.Context(), 1)).To(Succeed())
	target.PushTogether(5)
	victim.PushTogether(5)
	g.Eventually(victim.Jobs.Created).WithTimeout(timeout / 6).Should(Equal(5))
}
