// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keda

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

func newScaledJob() *scaledjobv1.ScaledJob {
	limit := int32(10)
	return &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "example", Name: "mail"},
		Spec: scaledjobv1.ScaledJobSpec{
			QueueName: "messages", RedisAddress: "redis:6379", Threshold: 2, MaxReplicas: &limit,
			JobTemplate: &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "worker", Image: "worker"}},
			}}}},
		},
	}
}

func TestScaledJobAsksForTheSameJobsOfTheSameList(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	object := must.Get(ScaledJob(newScaledJob(), 30*time.Second))(g)
	g.Expect(object.GetNamespace()).To(Equal("example"))
	g.Expect(object.GetName()).To(Equal("mail"))
	g.Expect(object.GetAPIVersion()).To(Equal("keda.sh/v1alpha1"))
	spec := object.Object["spec"]
	g.Expect(spec).To(And(
		HaveKeyWithValue("pollingInterval", int64(30)),
		HaveKeyWithValue("maxReplicaCount", int64(10)),
		HaveKeyWithValue("scalingStrategy", HaveKeyWithValue("strategy", StrategyDefault)),
		HaveKeyWithValue("triggers", ConsistOf(And(
			HaveKeyWithValue("type", "redis"),
			HaveKeyWithValue("metadata", Equal(map[string]any{"address": "redis:6379", "listName": "messages", "listLength": "2"})),
		))),
		HaveKeyWithValue("jobTargetRef", HaveKeyWithValue("template", HaveKeyWithValue("spec", HaveKeyWithValue("restartPolicy", "Never")))),
	))
	g.Expect(object.DeepCopy()).To(Equal(object), "the API machinery knows the types of all values")
}

func TestWorkersThatPopHaveTheAccurateStrategy(t *testing.T) {
	t.Parallel()
	sj := newScaledJob()
	sj.Spec.ScalingStrategy.Type = scaledjobv1.StrategyAccurate
	NewWithT(t).Expect(Strategy(sj)).To(Equal(StrategyAccurate))
}

func TestAtRest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	object := Named(newScaledJob())
	g.Expect(AtRest(object)).To(BeFalse(), "KEDA does not know it yet")
	for _, test := range []struct {
		ready, active string
		atRest        bool
	}{{"True", "Unknown", false}, {"True", "True", false}, {"False", "False", false}, {"True", "False", true}} {
		object.Object["status"] = map[string]any{"conditions": []any{
			map[string]any{"type": "Ready", "status": test.ready}, map[string]any{"type": "Active", "status": test.active},
		}}
		g.Expect(AtRest(object)).To(Equal(test.atRest), "Ready %s, Active %s", test.ready, test.active)
	}
}

func TestDefaultsLeaveTheLimitsToKEDA(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(Defaults().flags()).To(BeEmpty())
	g.Expect(Defaults().environment()).To(BeEmpty())
	g.Expect(Best().flags()).To(ConsistOf("--kube-api-qps=500", "--kube-api-burst=1000"))
	g.Expect(Best().environment()).To(ConsistOf("KEDA_SCALEDJOB_CTRL_MAX_RECONCILES=20"))
}
