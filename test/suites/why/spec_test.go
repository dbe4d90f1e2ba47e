// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

var everyMode = []scaledjobv1.ScalingMode{scaledjobv1.ModeEvents, scaledjobv1.ModeTracking, scaledjobv1.ModePolling}

// bySpec are the situations that the spec brings about.
func bySpec() []situation {
	return []situation{
		{
			name: "suspended", modes: everyMode,
			bring: func(s *stage) {
				s.push(2)
				s.create(suspend(true))
			},
			says: claim{
				kind: scaledjobv1.ConditionScalingLimited, status: yes, reason: scaledjobv1.ReasonSuspended, words: []string{"spec.suspend"},
			},
			also: []claim{{kind: scaledjobv1.ConditionReady, status: yes, reason: scaledjobv1.ReasonSuspended}},
			cure: func(s *stage) { s.Update(suspend(false)) },
		},
		{
			name: "activation-threshold", modes: everyMode,
			bring: func(s *stage) {
				s.createWell(func(spec *scaledjobv1.ScaledJobSpec) { spec.ActivationThreshold = 3 })
				s.push(3)
			},
			says: claim{
				kind: scaledjobv1.ConditionScalingLimited, status: no, reason: scaledjobv1.ReasonNotLimited,
				words: []string{"spec.activationThreshold"},
			},
			cure: func(s *stage) { s.push(1) },
			then: wellAnd(claim{
				kind: scaledjobv1.ConditionScalingLimited, status: no, reason: scaledjobv1.ReasonNotLimited,
				without: "spec.activationThreshold",
			}),
		},
		{
			name: "max-wait",
			bring: func(s *stage) {
				s.createWell(func(spec *scaledjobv1.ScaledJobSpec) {
					spec.ActivationThreshold, spec.MaxWaitSeconds = 3, new(int32(3600))
				})
				s.push(2)
			},
			says: claim{
				kind: scaledjobv1.ConditionScalingLimited, status: no, reason: scaledjobv1.ReasonNotLimited,
				words: []string{"spec.activationThreshold", "spec.maxWaitSeconds"},
			},
			cure: func(s *stage) {
				s.Update(func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxWaitSeconds = new(int32(1)) })
			},
		},
		{
			name: "max-replicas-0", short: true,
			bring: func(s *stage) {
				s.push(2)
				s.create(scene.AtMost(0))
			},
			says: claim{
				kind: scaledjobv1.ConditionScalingLimited, status: yes, reason: scaledjobv1.ReasonAtMaxReplicas,
				words: []string{"spec.maxReplicas"},
			},
			cure: func(s *stage) { s.Update(scene.AtMost(10)) },
		},
		badTemplate("template-field", "spec.backoffLimit", func(spec *scaledjobv1.ScaledJobSpec) {
			spec.JobTemplate.Spec.BackoffLimit = new(int32(-1))
		}, func(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate.Spec.BackoffLimit = new(int32(0)) }),
		badTemplate("template-volume", "volumeMounts[0].name", func(spec *scaledjobv1.ScaledJobSpec) {
			spec.JobTemplate.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "letters", MountPath: "/letters"}}
		}, func(spec *scaledjobv1.ScaledJobSpec) {
			spec.JobTemplate.Spec.Template.Spec.Containers[0].VolumeMounts = nil
		}),
		unknownContainer(),
		invalidSpec(),
		largeTemplate("template-of-65-kib", 65<<10),
		largeTemplate("template-of-1400-kib", 1400<<10),
	}
}

// unknownContainer is a template that sets no restartPolicy, and whose podFailurePolicy is about a container that does
// not exist: that is all that the API server rejects.
func unknownContainer() situation {
	about := func(container string) scene.Change {
		return func(spec *scaledjobv1.ScaledJobSpec) {
			spec.JobTemplate.Spec.Template.Spec.RestartPolicy = ""
			spec.JobTemplate.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action: batchv1.PodFailurePolicyActionFailJob,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
					ContainerName: &container, Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42},
				},
			}}}
		}
	}
	wrong := badTemplate("template-pod-failure-policy", "onExitCodes.containerName", about("postman"), about("mailer"))
	wrong.says.without = "restartPolicy"
	for i := range wrong.also {
		wrong.also[i].without = "restartPolicy"
	}
	return wrong
}

func suspend(suspended bool) scene.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = suspended }
}

// badTemplate is a template that the API server rejects for this field.
func badTemplate(name, field string, bad, good scene.Change) situation {
	return situation{
		name: name,
		bring: func(s *stage) {
			s.push(1)
			s.create(bad)
		},
		says:  createRefused(field),
		also:  rejected(field),
		event: warning(scaledjobv1.ReasonCreateRefused, field),
		cure:  func(s *stage) { s.Update(good) },
	}
}

// largeTemplate is a template of about this size, until it has 63 KiB.
func largeTemplate(name string, size int) situation {
	sized := func(size int) scene.Change { return annotation("example.com/script", strings.Repeat("a", size)) }
	words := []string{"larger than 64 KiB", "ConfigMap"}
	return situation{
		name: name,
		bring: func(s *stage) {
			s.push(1)
			s.create(sized(size))
		},
		says:  claim{kind: scaledjobv1.ConditionReady, status: no, reason: scaledjobv1.ReasonInvalidSpec, words: words},
		also:  []claim{{kind: scaledjobv1.ConditionStalled, status: yes, reason: scaledjobv1.ReasonInvalidSpec, words: words}},
		event: warning(scaledjobv1.ReasonInvalidSpec, words...),
		cure:  func(s *stage) { s.Update(sized(63 << 10)) },
	}
}

// invalidSpec is a spec with a field that the operator does not know, because the CRD is newer.
func invalidSpec() situation {
	set := func(s *stage, value any) {
		fields := map[string]any{"spec": map[string]any{newerField: value}}
		s.patch(s.Reference(), fields)
	}
	words := []string{newerField, "Upgrade the operator"}
	return situation{
		name: "unknown-field", restricted: true,
		bring: func(s *stage) {
			s.grant("batch", "jobs", "create")
			s.create()
			set(s, 5)
			s.push(1)
		},
		says:  claim{kind: scaledjobv1.ConditionReady, status: no, reason: scaledjobv1.ReasonInvalidSpec, words: words},
		also:  []claim{{kind: scaledjobv1.ConditionStalled, status: yes, reason: scaledjobv1.ReasonInvalidSpec, words: words}},
		event: warning(scaledjobv1.ReasonInvalidSpec, newerField),
		cure:  func(s *stage) { set(s, nil) },
	}
}
