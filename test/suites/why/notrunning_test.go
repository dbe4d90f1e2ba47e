// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
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
		limited("at-max-replicas", scaledjobv1.ReasonAtMaxReplicas, []string{"spec.maxReplicas"},
			late(3, sjtest.AtMost(1)), update(sjtest.AtMost(10))),
		limited("at-max-pending", scaledjobv1.ReasonAtMaxPending, []string{"spec.maxPendingReplicas", "kubectl describe pods"},
			late(3, never, func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxPendingReplicas = new(int32(1)) }),
			func(s *stage) {
				s.Update(untouched, func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxPendingReplicas = nil })
				s.readyPods()
			}),
		limited("jobs-suspended", scaledjobv1.ReasonJobsSuspended, []string{"2 active Jobs are suspended", "Kueue", "LocalQueue"},
			early(2, jobsSuspended), func(s *stage) { s.resume(s.jobs()) }),
		limited("jobs-fail", scaledjobv1.ReasonJobsFailing, []string{"have all failed", "kubectl logs"},
			late(3, annotation(cluster.PodFailAfter, "0s")), update(untouched)),
		limited("jobs-take-no-message", scaledjobv1.ReasonNoProgress, []string{"no message leaves the queue"},
			late(3, annotation(cluster.PodSucceedAfter, "0s")), update(untouched)),
		limited("jobs-fail-with-their-messages", scaledjobv1.ReasonJobsFailing, []string{"messages have left the queue", "kubectl logs"},
			(*stage).loseMessages, update(annotation("example.com/corrected", "yes"))),
		limited("messages-orphaned", scaledjobv1.ReasonMessagesOrphaned, []string{"6 in", "NAMESPACE:busy", "single Jobs", "move them back"},
			(*stage).orphanMessages, func(s *stage) {
				s.Expect(s.Redis.Rename(s.t.Context(), s.busy(), s.Queue).Err()).To(Succeed())
				s.Update(untouched)
			}),
	}
	for i := 2; i < len(all); i++ {
		all[i].event = warning(all[i].says.reason) // The first two are the user's own limits.
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
	annotate(s, s.pods()[:lost], cluster.PodFailAfter, "0s")
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

// jobsSuspended has the Jobs be suspended.
func jobsSuspended(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate.Spec.Suspend = new(true) }

// never lets no Pod become ready until readyPods.
var never = annotation(cluster.PodReadyAfter, (24 * time.Hour).String())

// readyPods has all Pods become ready.
func (s *stage) readyPods() {
	s.t.Helper()
	s.annotatePods(cluster.PodReadyAfter, "0s")
}

// limited is a situation that ScalingLimited tells.
func limited(name, reason string, words []string, bring, cure func(s *stage)) situation {
	return situation{
		name: name, bring: bring, cure: cure,
		says: claimed(scaledjobv1.ConditionScalingLimited, yes, reason, words...),
	}
}

// notStarting are the situations in which the Pods of Jobs do not become ready. They last for a minute before they are
// told, so make test leaves them out.
func notStarting() []situation {
	// All Jobs that may be there are there, and raising the limit would not help.
	atMost := waits("image-at-max-replicas", []string{"ready Pod"}, func(s *stage) {
		s.create(never, sjtest.AtMost(1))
		s.waiting = 1
	}, (*stage).readyPods)
	atMost.then = []claim{
		claimed(scaledjobv1.ConditionReady, yes, scaledjobv1.ReasonReconciled),
		claimed(scaledjobv1.ConditionScalingLimited, yes, scaledjobv1.ReasonAtMaxReplicas, "spec.maxReplicas"),
	}
	noPod := []string{"Without any Pod", describeJobs}
	return []situation{
		atMost,
		waits("pod-security", noPod, func(s *stage) {
			s.labelNamespace(enforce, "restricted")
			s.create()
		}, func(s *stage) {
			s.labelNamespace(enforce, nil)
			s.touchJobs()
		}),
		waits("service-account", noPod, func(s *stage) {
			s.create(func(spec *scaledjobv1.ScaledJobSpec) {
				spec.JobTemplate.Spec.Template.Spec.ServiceAccountName = "mailer"
			})
		}, func(s *stage) {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "mailer"}}
			s.Expect(s.API.Create(s.t.Context(), account)).To(Succeed())
			s.touchJobs()
		}),
		waits("pod-quota", noPod, func(s *stage) {
			s.quota(pricesQuota, sjtest.PodCount, 0)
			s.create()
		}, undoAndTouch),
		waits("image", []string{"ready Pod"}, func(s *stage) { s.create(never) }, (*stage).readyPods),
		waits("node", []string{"ready Pod"}, func(s *stage) { s.create(onNoNode) }, (*stage).bindPods),
		waits("limit-range", []string{"Without any Pod", "LimitRange", describeJobs}, func(s *stage) {
			s.leastMemory("1Gi")
			s.create(memory("1Mi"))
		}, undoAndTouch),
		// Only the controller that managedBy names makes Pods for the Jobs, and there is none.
		waits("managed-by", []string{"Without any Pod", "managedBy", describeJobs}, func(s *stage) {
			s.create(managedBy(new("example.com/nobody")))
		}, func(s *stage) {
			s.Update(managedBy(nil))
			s.deleteJobs()
		}),
		waits("some-jobs-suspended", []string{"Suspended: 1"}, func(s *stage) {
			s.create(jobsSuspended)
			s.Eventually(s.jobs).Should(HaveLen(s.waiting), s.explain)
			s.resume(s.jobs()[:1])
		}, func(s *stage) { s.resume(s.jobs()) }),
		waits("jobs-of-an-earlier-template", []string{"earlier template"}, func(s *stage) {
			s.create(never)
			s.Eventually(s.pods).Should(HaveLen(s.waiting), s.explain)
			s.Update(untouched, func(spec *scaledjobv1.ScaledJobSpec) {
				spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = "registry.example/mailer:2"
			})
		}, (*stage).deleteJobs),
	}
}

// undoAndTouch ends what was brought about, and has Kubernetes try at once.
func undoAndTouch(s *stage) {
	s.undo()
	s.touchJobs()
}

// memory has the containers request this memory.
func memory(quantity string) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) {
		requests := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(quantity)}
		spec.JobTemplate.Spec.Template.Spec.Containers[0].Resources.Requests = requests
	}
}

// leastMemory has the API server refuse Pods that request less memory, until the situation is undone.
func (s *stage) leastMemory(quantity string) {
	s.t.Helper()
	least := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "memory"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(quantity)},
		}}},
	}
	s.Expect(s.API.Create(s.t.Context(), least)).To(Succeed())
	s.cleanUp(func(ctx context.Context) error { return s.API.Delete(ctx, least) })
}

// managedBy leaves the Jobs to this controller.
func managedBy(controller *string) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate.Spec.ManagedBy = controller }
}

// resume resumes suspended Jobs.
func (s *stage) resume(jobs []batchv1.Job) {
	s.t.Helper()
	for _, job := range jobs {
		s.patch(&job, map[string]any{"spec": map[string]any{"suspend": false}})
	}
}

// deleteJobs deletes all Jobs.
func (s *stage) deleteJobs() {
	s.t.Helper()
	for _, job := range s.jobs() {
		s.Expect(s.API.Delete(s.t.Context(), &job, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	}
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
