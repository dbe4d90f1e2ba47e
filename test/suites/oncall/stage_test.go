// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package oncall

import (
	"context"
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	prometheuskit "miracle.dev/scaledjob-operator/test/kit/prometheus"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// stage is a namespace with a ScaledJob.
type stage struct {
	*WithT
	*sjtest.Test

	t *testing.T
	// server is the Redis server, if it is one of its own.
	server *redistest.Server
	// undo ends what was brought about, where that is a webhook.
	undo func()
}

func newStage(t *testing.T) *stage {
	t.Helper()
	namespace := shared.Cluster.NewNamespace(t, "oncall")
	return &stage{WithT: NewWithT(t), t: t, Test: sjtest.NewTest(t, timeout, &sjtest.ScaledJob{
		API: shared.API, Operator: leader, Redis: redis.Client(), Address: redis.Addr(),
		Namespace: namespace, Name: "worker", Queue: namespace + ":jobs",
	})}
}

// on moves the queue to a server of its own.
func (s *stage) on(opts redistest.Options) {
	s.t.Helper()
	s.server = redistest.New(s.t, opts)
	s.Redis, s.Address = s.server.Client(), s.server.Addr()
}

// create creates the ScaledJob, whose Pods run until something else is said.
func (s *stage) create(changes ...sjtest.Change) {
	s.t.Helper()
	s.Create(append([]sjtest.Change{func(spec *scaledjobv1.ScaledJobSpec) {
		spec.PollingIntervalSeconds = 1
		spec.JobTemplate = &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "worker", Image: "registry.example/worker:1"}},
			}},
		}}
	}}, changes...)...)
}

// pods annotates the Pods of the template.
func pods(key, value string) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.Template.Annotations = map[string]string{key: value}
	}
}

// now has happen to all Pods what an annotation is about.
func (s *stage) now(annotation string) {
	s.t.Helper()
	var pods corev1.PodList
	s.Expect(s.API.List(s.t.Context(), &pods, client.InNamespace(s.Namespace))).To(Succeed())
	for _, pod := range pods.Items {
		s.Expect(cluster.Now(s.t.Context(), s.API, &pod, annotation)).To(Succeed())
	}
}

// awaitReady returns when so many Jobs run.
func (s *stage) awaitReady(jobs int) {
	s.t.Helper()
	s.Eventually(s.Status).Should(And(
		HaveField("ActiveJobs", BeEquivalentTo(jobs)), HaveField("PendingJobs", BeEquivalentTo(0))), s.Explain)
}

// firing are the names of the alerts of the stage that fire.
func (s *stage) firing() ([]string, error) {
	return firing(s.t.Context(), prometheus, s.isMeant)
}

// isMeant says whether an alert is about the namespace, or about a Redis server that only the stage has.
func (s *stage) isMeant(labels map[string]string) bool {
	return labels["namespace"] == s.Namespace || s.server != nil && labels["endpoint"] == s.Address
}

// firing are the names of the alerts with such labels that fire, in their order.
func firing(ctx context.Context, in *prometheuskit.Prometheus, are func(labels map[string]string) bool) ([]string, error) {
	alerts, err := in.Alerts(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, each := range alerts {
		if each.State == "firing" && are(each.Labels) {
			names = append(names, each.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// description is that of an alert of the stage that fires.
func (s *stage) description(alert string) (string, error) {
	alerts, err := prometheus.Alerts(s.t.Context())
	for _, each := range alerts {
		if each.State == "firing" && s.isMeant(each.Labels) && each.Labels["alertname"] == alert {
			return each.Annotations["description"], nil
		}
	}
	return fmt.Sprintf("%s does not fire", alert), err
}
