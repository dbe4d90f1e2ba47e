// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

var everyMode = []scaledjobv1.ScalingMode{scaledjobv1.ModeEvents, scaledjobv1.ModeTracking, scaledjobv1.ModePolling}

// bySpec are the situations that the spec brings about.
func bySpec() []situation {
	return []situation{
		{
			name: "suspended", modes: everyMode,
			bring: early(2, suspend(true)),
			says:  claimed(scaledjobv1.ConditionScalingLimited, yes, scaledjobv1.ReasonSuspended, "spec.suspend"),
			also:  []claim{claimed(scaledjobv1.ConditionReady, yes, scaledjobv1.ReasonSuspended)},
			cure:  update(suspend(false)),
		},
		{
			name: "activation-threshold", modes: everyMode,
			bring: late(3, func(spec *scaledjobv1.ScaledJobSpec) { spec.ActivationThreshold = 3 }),
			says:  claimed(scaledjobv1.ConditionScalingLimited, no, scaledjobv1.ReasonNotLimited, "spec.activationThreshold"),
			cure:  func(s *stage) { s.push(1) },
			then: wellAnd(claimed(scaledjobv1.ConditionScalingLimited, no, scaledjobv1.ReasonNotLimited).
				lacking("spec.activationThreshold")),
		},
		{
			name: "max-wait",
			bring: late(2, func(spec *scaledjobv1.ScaledJobSpec) {
				spec.ActivationThreshold, spec.MaxWaitSeconds = 3, new(int32(3600))
			}),
			says: claimed(scaledjobv1.ConditionScalingLimited, no, scaledjobv1.ReasonNotLimited,
				"spec.activationThreshold", "spec.maxWaitSeconds"),
			cure: update(func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxWaitSeconds = new(int32(1)) }),
		},
		{
			name:  "max-replicas-0",
			bring: early(2, sjtest.AtMost(0)),
			says:  claimed(scaledjobv1.ConditionScalingLimited, yes, scaledjobv1.ReasonAtMaxReplicas, "spec.maxReplicas"),
			cure:  update(sjtest.AtMost(10)),
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
		unknownField(),
		largeTemplate("template-of-65-kib", 65<<10),
		largeTemplate("template-of-1400-kib", 1400<<10),
	}
}

// unknownContainer is a template that sets no restartPolicy, and whose podFailurePolicy is about a container that does
// not exist: that is all that the API server rejects.
func unknownContainer() situation {
	about := func(container string) sjtest.Change {
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

func suspend(suspended bool) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = suspended }
}

// badTemplate is a template that the API server rejects for this field.
func badTemplate(name, field string, bad, good sjtest.Change) situation {
	return situation{
		name:  name,
		bring: early(1, bad),
		says:  createRefused(field),
		also:  rejected(field),
		event: warning(scaledjobv1.ReasonCreateRefused, field),
		cure:  update(good),
	}
}

// largeTemplate is a template of about this size, until it has 63 KiB.
func largeTemplate(name string, size int) situation {
	sized := func(size int) sjtest.Change { return annotation("example.com/script", strings.Repeat("a", size)) }
	return invalidSpec(name, early(1, sized(size)), update(sized(63<<10)), "larger than 64 KiB", "ConfigMap")
}

// invalidSpec is a spec that the API server accepts and the operator does not.
func invalidSpec(name string, bring, cure func(s *stage), words ...string) situation {
	return situation{
		name: name, bring: bring, cure: cure,
		says:  claimed(scaledjobv1.ConditionReady, no, scaledjobv1.ReasonInvalidSpec, words...),
		also:  []claim{claimed(scaledjobv1.ConditionStalled, yes, scaledjobv1.ReasonInvalidSpec, words...)},
		event: warning(scaledjobv1.ReasonInvalidSpec, words...),
	}
}

// unknownField is a spec with a field that the operator does not know, because the CRD is newer.
func unknownField() situation {
	set := func(s *stage, value any) {
		fields := map[string]any{"spec": map[string]any{newerField: value}}
		s.patch(s.Reference(), fields)
	}
	return invalidSpec("unknown-field", func(s *stage) {
		s.grant("batch", "jobs", "create")
		s.create()
		set(s, 5)
		s.push(1)
	}, func(s *stage) { set(s, nil) }, newerField, "Upgrade the operator").withoutPermissions()
}
