// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const (
	// describeJobs is the command that shows why a Job has no Pod.
	describeJobs = "kubectl describe jobs"
	// enforce is the label by which a namespace admits only Pods of a level.
	enforce = "pod-security.kubernetes.io/enforce"
)

// notRunning are the situations in which there are Jobs, and the messages still wait.
func notRunning() []situation {
	all := []situation{
		limited("at-max-replicas", scaledjobv1.ReasonAtMaxReplicas, []string{"spec.maxReplicas"}, func(s *stage) {
			s.createWell(scene.AtMost(1))
			s.push(3)
		}, func(s *stage) { s.Update(scene.AtMost(10)) }),
		limited("jobs-fail", scaledjobv1.ReasonJobsFailing, []string{"have all failed", "kubectl logs"}, func(s *stage) {
			s.createWell(annotation(cluster.PodFailAfter, "0s"))
			s.push(3)
		}, func(s *stage) { s.Update(untouched) }),
		limited("jobs-take-no-message", scaledjobv1.ReasonNoProgress, []string{"no message leaves the queue"}, func(s *stage) {
			s.createWell(annotation(cluster.PodSucceedAfter, "0s"))
			s.push(3)
		}, func(s *stage) { s.Update(untouched) }),
		limited("jobs-fail-with-their-messages", scaledjobv1.ReasonJobsFailing, []string{"messages have left the queue", "kubectl logs"},
			(*stage).loseMessages, func(s *stage) { s.Update(annotation("example.com/corrected", "yes")) }),
		limited("messages-orphaned", scaledjobv1.ReasonMessagesOrphaned, []string{"6 in", "NAMESPACE:busy", "single Jobs", "move them back"},
			(*stage).orphanMessages, func(s *stage) {
				s.Expect(s.Redis.Rename(s.t.Context(), s.busy(), s.Queue).Err()).To(Succeed())
				s.Update(untouched)
			}),
	}
	all[0].short = true
	for i := 1; i < len(all); i++ {
		all[i].event = warning(all[i].says.reason)
	}
	return append(all, notStarting()...)
}

// loseMessages has three of six workers take a message and fail.
func (s *stage) loseMessages() {
	s.t.Helper()
	const lost, kept = 3, 3
	s.createWell()
	s.push(lost + kept)
	s.Eventually(s.pods).Should(HaveLen(s.waiting), s.explain)
	s.Expect(s.Redis.RPopCount(s.t.Context(), s.Queue, lost).Err()).To(Succeed())
	s.waiting = kept
	s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(BeEquivalentTo(kept))), s.explain)
	for _, pod := range s.pods()[:lost] {
		s.patch(&pod, map[string]any{"metadata": map[string]any{"annotations": map[string]any{cluster.PodFailAfter: "0s"}}})
	}
}

// orphanMessages has six messages in progress whose workers are gone, and workers that do not take them over.
func (s *stage) orphanMessages() {
	s.t.Helper()
	s.push(6)
	s.Expect(s.Redis.Rename(s.t.Context(), s.Queue, s.busy()).Err()).To(Succeed())
	s.create(annotation(cluster.PodSucceedAfter, "0s"), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.QueueName, spec.Queues = "", []scaledjobv1.Queue{{Name: s.Queue}, {Name: s.busy(), Role: scaledjobv1.RoleInProgress}}
	})
}

// busy is the key of the messages in progress.
func (s *stage) busy() string { return s.Namespace + ":busy" }

// untouched lets Pods run until a test ends them.
func untouched(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate.Spec.Template.Annotations = nil }

// limited is a situation that ScalingLimited tells.
func limited(name, reason string, words []string, bring, cure func(s *stage)) situation {
	return situation{
		name: name, bring: bring, cure: cure,
		says: claim{kind: scaledjobv1.ConditionScalingLimited, status: yes, reason: reason, words: words},
	}
}

// notStarting are the situations in which the Pods of Jobs do not become ready. They last for a minute before they are
// told, so make test leaves them out.
func notStarting() []situation {
	never := annotation(cluster.PodReadyAfter, (24 * time.Hour).String())
	all := []situation{
		waits("pod-security", []string{"Without any Pod", describeJobs}, func(s *stage) {
			s.labelNamespace(enforce, "restricted")
			s.create()
		}, func(s *stage) {
			s.labelNamespace(enforce, nil)
			s.touchJobs()
		}),
		waits("service-account", []string{"Without any Pod", describeJobs}, func(s *stage) {
			s.create(func(spec *scaledjobv1.ScaledJobSpec) {
				spec.JobTemplate.Spec.Template.Spec.ServiceAccountName = "mailer"
			})
		}, func(s *stage) {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "mailer"}}
			s.Expect(s.API.Create(s.t.Context(), account)).To(Succeed())
			s.touchJobs()
		}),
		waits("pod-quota", []string{"Without any Pod", describeJobs}, func(s *stage) {
			s.quota(pricesQuota, scene.PodCount, 0)
			s.create()
		}, func(s *stage) {
			s.undo()
			s.touchJobs()
		}),
		waits("image", []string{"ready Pod"}, func(s *stage) { s.create(never) }, func(s *stage) {
			s.annotatePods(cluster.PodReadyAfter, "0s")
		}),
		// All Jobs that may be there are there, and raising the limit would not help.
		waits("image-at-max-replicas", []string{"ready Pod"}, func(s *stage) {
			s.create(never, scene.AtMost(1))
			s.waiting = 1
		}, func(s *stage) {
			s.annotatePods(cluster.PodReadyAfter, "0s")
		}),
		waits("node", []string{"ready Pod"}, func(s *stage) { s.create(onNoNode) }, (*stage).bindPods),
		waits("job-suspended", []string{"suspended"}, func(s *stage) {
			s.create(func(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate.Spec.Suspend = new(true) })
		}, func(s *stage) {
			for _, job := range s.jobs() {
				s.patch(&job, map[string]any{"spec": map[string]any{"suspend": false}})
			}
		}),
		waits("jobs-of-an-earlier-template", []string{"earlier template"}, func(s *stage) {
			s.create(never)
			s.Eventually(s.pods).Should(HaveLen(s.waiting), s.explain)
			s.Update(untouched, func(spec *scaledjobv1.ScaledJobSpec) {
				spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = "registry.example/mailer:2"
			})
		}, func(s *stage) {
			for _, job := range s.jobs() {
				background := client.PropagationPolicy(metav1.DeletePropagationBackground)
				s.Expect(s.API.Delete(s.t.Context(), &job, background)).To(Succeed())
			}
		}),
	}
	for i := range all {
		if all[i].name == "image-at-max-replicas" {
			all[i].then = []claim{
				{kind: scaledjobv1.ConditionReady, status: yes, reason: scaledjobv1.ReasonReconciled},
				{kind: scaledjobv1.ConditionScalingLimited, status: yes, reason: scaledjobv1.ReasonAtMaxReplicas, words: []string{"spec.maxReplicas"}},
			}
		}
	}
	return all
}

// waits is a situation of two messages whose Jobs do not start.
func waits(name string, words []string, bring, cure func(s *stage)) situation {
	w := limited(name, scaledjobv1.ReasonJobsNotStarting, words, func(s *stage) {
		s.push(2)
		bring(s)
	}, cure)
	w.event = warning(scaledjobv1.ReasonJobsNotStarting)
	return w
}

// onNoNode has the Pods want a node that does not exist. Another scheduler than the default one leaves them alone.
func onNoNode(spec *scaledjobv1.ScaledJobSpec) {
	pod := &spec.JobTemplate.Spec.Template.Spec
	pod.SchedulerName, pod.NodeSelector = "none", map[string]string{"example.com/gpu": "yes"}
}

// bindPods places all Pods on the Node, as a scheduler does when a node comes that fits.
func (s *stage) bindPods() {
	s.t.Helper()
	for _, pod := range s.pods() {
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: cluster.FakeNode}}
		s.Expect(s.API.SubResource("binding").Create(s.t.Context(), &pod, binding)).To(Succeed())
	}
}
