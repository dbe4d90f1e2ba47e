// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// ordinal sets the annotation that tells the number of a Job.
func ordinal(value any) map[string]any { return annotation(scaledjobv1.AnnotationOrdinal, value) }

// floor sets the annotation that tells which Jobs came before.
func floor(value any) map[string]any { return annotation(scaledjobv1.AnnotationOrdinalFloor, value) }

func annotation(key string, value any) map[string]any {
	return map[string]any{"annotations": map[string]any{key: value}}
}

// tamperings are merge patches of the metadata of Jobs, one for each, by the name
// of the ScaledJob that they belong to.
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
	var claims []claim
	for name := range tamperings {
		s := newScaledJob(t, namespace, name, 1, 100)
		g.Expect(s.PushTogether(t.Context(), before)).To(Succeed())
		claims = append(claims, claim{scaledJob: s, jobs: before + rounds*after})
	}
	for _, c := range claims {
		g.Expect(c.scaledJob.Witness.AwaitCreated(t.Context(), before)).To(Succeed())
		c.scaledJob.tamper(t, tamperings[c.scaledJob.Object.Name])
	}
	// The next operator knows of the Jobs only what it sees.
	g.Expect(operator.Kill()).To(Succeed())
	operator = startOperator(t, proxy, []string{namespace})
	for _, c := range claims {
		c.scaledJob.awaitSubscription(t)
	}
	proxy.lag(shortLag)

	for round := range rounds {
		for _, c := range claims {
			g.Expect(c.scaledJob.PushTogether(t.Context(), after)).To(Succeed())
		}
		for _, c := range claims {
			g.Eventually(c.scaledJob.Witness.Created).WithTimeout(timeout).
				Should(BeNumerically(">=", before+(round+1)*after), "Jobs of %s", c.scaledJob.Object.Name)
		}
	}
	prove(t, operator, witness.Row{
		Fault:   "labels and annotations of running Jobs are removed or forged, and the operator is killed, watches 0.1 s late",
		Promise: "the Jobs still count, and the others are created",
	}, claims...)
}

// tamper changes the metadata of as many Jobs as there are patches.
func (s *scaledJob) tamper(t *testing.T, patches []map[string]any) {
	t.Helper()
	g := NewWithT(t)
	jobs := s.Witness.Unfinished()
	for i, metadata := range patches {
		patch, err := json.Marshal(map[string]any{"metadata": metadata})
		g.Expect(err).NotTo(HaveOccurred())
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.Object.Namespace, Name: jobs[i]}}
		g.Expect(api.Patch(t.Context(), job, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	}
}
