// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

func TestBuildSetsTheEnvironment(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	owner := owner()
	owner.Spec.QueueName, owner.Spec.Threshold = "mail:$(HOME):waiting", 5
	pod := &owner.Spec.JobTemplate.Spec.Template.Spec
	own := corev1.EnvVar{Name: scaledjobv1.EnvThreshold, Value: "mine"}
	pod.Containers[0].Env = []corev1.EnvVar{own}
	pod.InitContainers = []corev1.Container{{Name: "sidecar"}}

	built := Build(owner, "hash", 1, 0).Spec.Template.Spec
	name := corev1.EnvVar{Name: "SCALEDJOB_NAME", Value: "emails"}
	// Kubernetes turns $$ into $, and would replace $(HOME).
	key := corev1.EnvVar{Name: "SCALEDJOB_QUEUE", Value: "mail:$$(HOME):waiting"}
	g.Expect(built.Containers[0].Env).To(Equal([]corev1.EnvVar{name, key, own}), "what the template sets stays")
	g.Expect(built.InitContainers[0].Env).To(Equal([]corev1.EnvVar{name, key, {Name: "SCALEDJOB_THRESHOLD", Value: "5"}}))
}

func TestEnvironmentOfSeveralQueues(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	owner := owner()
	owner.Spec.Queues = []scaledjobv1.Queue{
		{Name: "first"}, {Name: "busy", Role: scaledjobv1.RoleInProgress}, {Name: "second"}, {Name: "first", Type: scaledjobv1.QueueStream},
	}
	g.Expect(environment(owner, 1)).To(ContainElement(corev1.EnvVar{Name: scaledjobv1.EnvQueue, Value: "first\nsecond"}))

	owner.Spec.Queues[2].Name = "a\x00b"
	g.Expect(environment(owner, 1)).NotTo(ContainElement(HaveField("Name", scaledjobv1.EnvQueue)), "no variable can hold a NUL character")
}

// A template with very many containers would otherwise make Jobs of many megabytes of long keys.
func TestEnvironmentOfManyContainers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	owner := owner()
	owner.Spec.QueueName = strings.Repeat("q", 1024)
	named := HaveField("Name", scaledjobv1.EnvQueue)
	g.Expect(environment(owner, 64)).To(ContainElement(named))
	g.Expect(environment(owner, 65)).NotTo(ContainElement(named))
	owner.Spec.JobTemplate.Spec.Template.Spec.InitContainers = make([]corev1.Container, 64)
	g.Expect(Build(owner, "hash", 1, 0).Spec.Template.Spec.Containers[0].Env).NotTo(ContainElement(named), "65 containers")
}
