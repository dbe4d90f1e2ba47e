// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

func TestStrategiesAccepted(t *testing.T) {
	t.Parallel()
	testAccepted(t, map[string]string{
		"nothing said":            "scalingStrategy: {}",
		"Default":                 "scalingStrategy: {type: Default}",
		"Accurate":                "scalingStrategy: {type: Accurate}",
		"Eager":                   "scalingStrategy: {type: Eager}",
		"grace without a type":    "scalingStrategy: {claimGraceSeconds: 5}",
		"no grace":                "scalingStrategy: {type: Accurate, claimGraceSeconds: 0}",
		"longest grace":           "scalingStrategy: {type: Accurate, claimGraceSeconds: 3600}",
		"Custom with nothing":     "scalingStrategy: {type: Custom, custom: {}}",
		"Custom with both":        "scalingStrategy: {type: Custom, custom: {queueLengthDeduction: 1, runningJobPercentage: 50}}",
		"deduction of 0":          "scalingStrategy: {type: Custom, custom: {queueLengthDeduction: 0}}",
		"largest deduction":       "scalingStrategy: {type: Custom, custom: {queueLengthDeduction: 9223372036854775807}}",
		"no part":                 "scalingStrategy: {type: Custom, custom: {runningJobPercentage: 0}}",
		"all of them":             "scalingStrategy: {type: Custom, custom: {runningJobPercentage: 100}}",
		"Accurate over many":      queues("[{name: a}, {name: b, role: InProgress}]") + "\nscalingStrategy: {type: Accurate}",
		"no rollout":              "rollout: {}",
		"Gradual":                 "rollout: {strategy: Gradual}",
		"Unstarted":               "rollout: {strategy: Unstarted}",
		"Immediate":               "rollout: {strategy: Immediate}",
		"Immediate in background": "rollout: {strategy: Immediate, propagationPolicy: Background}",
		"Immediate in foreground": "rollout: {strategy: Immediate, propagationPolicy: Foreground}",
		"propagation alone":       "rollout: {propagationPolicy: Foreground}",
	})
}

func TestStrategiesRefused(t *testing.T) {
	t.Parallel()
	const strategy, custom = "spec.scalingStrategy", "custom is required with type Custom, and not allowed with another"
	const deduction, percentage = strategy + ".custom.queueLengthDeduction", strategy + ".custom.runningJobPercentage"
	testRefused(t, map[string]refusal{
		"unknown type":              {"scalingStrategy: {type: accurate}", strategy + ".type", `"Default", "Accurate", "Eager", "Custom"`},
		"empty type":                {`scalingStrategy: {type: ""}`, strategy + ".type", "Unsupported value"},
		"negative grace":            {"scalingStrategy: {claimGraceSeconds: -1}", strategy + ".claimGraceSeconds", "greater than or equal to 0"},
		"grace above an hour":       {"scalingStrategy: {claimGraceSeconds: 3601}", strategy + ".claimGraceSeconds", "less than or equal to 3600"},
		"grace as text":             {"scalingStrategy: {claimGraceSeconds: 10s}", strategy + ".claimGraceSeconds", "must be of type integer"},
		"Custom without custom":     {"scalingStrategy: {type: Custom}", strategy + ".custom", custom},
		"custom without a type":     {"scalingStrategy: {custom: {}}", strategy + ".custom", custom},
		"custom with Default":       {"scalingStrategy: {type: Default, custom: {}}", strategy + ".custom", custom},
		"custom with Accurate":      {"scalingStrategy: {type: Accurate, custom: {}}", strategy + ".custom", custom},
		"custom with Eager":         {"scalingStrategy: {type: Eager, custom: {}}", strategy + ".custom", custom},
		"negative deduction":        {"scalingStrategy: {type: Custom, custom: {queueLengthDeduction: -1}}", deduction, "greater than or equal to 0"},
		"deduction as text":         {"scalingStrategy: {type: Custom, custom: {queueLengthDeduction: many}}", deduction, "must be of type integer"},
		"percentage -1":             {"scalingStrategy: {type: Custom, custom: {runningJobPercentage: -1}}", percentage, "greater than or equal to 0"},
		"percentage 101":            {"scalingStrategy: {type: Custom, custom: {runningJobPercentage: 101}}", percentage, "less than or equal to 100"},
		"percentage as a fraction":  {"scalingStrategy: {type: Custom, custom: {runningJobPercentage: 0.5}}", percentage, "must be of type integer"},
		"percentage as text":        {`scalingStrategy: {type: Custom, custom: {runningJobPercentage: "50"}}`, percentage, "must be of type integer"},
		"percentage of more digits": {"scalingStrategy: {type: Custom, custom: {runningJobPercentage: 4294967346}}", percentage, "less than or equal to 100"},
		"unknown rollout":           {"rollout: {strategy: immediate}", "spec.rollout.strategy", `"Gradual", "Unstarted", "Immediate"`},
		"unknown propagation":       {"rollout: {propagationPolicy: Orphan}", "spec.rollout.propagationPolicy", `"Background", "Foreground"`},
		"rollout as text":           {"rollout: Immediate", "spec.rollout", "must be of type object"},
	})
}

func TestDefaultsOfStrategyAndRollout(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	sent := specified(g, "scalingStrategy: {}\nrollout: {}")
	sent.SetName("default-strategy")
	g.Expect(api.Create(t.Context(), sent)).To(Succeed())

	var stored scaledjobv1.ScaledJob
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(sent), &stored)).To(Succeed())
	g.Expect(stored.Spec.ScalingStrategy).To(Equal(scaledjobv1.ScalingStrategy{
		Type: scaledjobv1.StrategyDefault, ClaimGraceSeconds: new(scaledjobv1.DefaultClaimGraceSeconds),
	}))
	g.Expect(stored.Spec.Rollout).To(Equal(scaledjobv1.Rollout{
		Strategy: scaledjobv1.RolloutGradual, PropagationPolicy: scaledjobv1.PropagationBackground,
	}))
}
