// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"miracle.dev/scaledjob-operator/internal/scaling"
)

// situation is a number of messages and Jobs, with the settings of a ScaledJob.
type situation struct {
	settings                             string
	policy                               scaling.Policy
	threshold                            int64
	waiting, inProgress, active, claimed int64
	overdue                              bool
}

// situations are the worked cases. Their results are computed.
func situations() []situation {
	of := func(strategy scaling.Strategy, change func(*scaling.Policy)) scaling.Policy {
		policy := scaling.Policy{MaxReplicas: 100, Calculation: scaling.Sum, Strategy: strategy}
		if change != nil {
			change(&policy)
		}
		return policy
	}
	const standard, accurate, eager, custom = scaling.StrategyDefault, scaling.StrategyAccurate, scaling.StrategyEager, scaling.StrategyCustom
	return []situation{
		{settings: "`threshold: 10`", policy: of(standard, nil), threshold: 10, waiting: 47, active: 2},
		{settings: "`threshold: 1`, workers move messages to a key in progress", policy: of(standard, nil), threshold: 1, waiting: 3, inProgress: 5, active: 5, claimed: 5},
		{settings: "`threshold: 1`, workers pop at the start, with `Default`", policy: of(standard, nil), threshold: 1, waiting: 3, active: 5, claimed: 5},
		{settings: "the same with `type: Accurate`", policy: of(accurate, nil), threshold: 1, waiting: 3, active: 5, claimed: 5},
		{settings: "the same while 2 of the Jobs have not taken their messages", policy: of(accurate, nil), threshold: 1, waiting: 3, active: 5, claimed: 3},
		{settings: "`type: Custom`, `queueLengthDeduction: 1`, `runningJobPercentage: 50`", policy: of(custom, func(p *scaling.Policy) {
			p.Deduction, p.ClaimedPercentage = 1, 50
		}), threshold: 1, waiting: 8, active: 4, claimed: 4},
		{settings: "`type: Eager`, `maxReplicas: 20`", policy: of(eager, func(p *scaling.Policy) { p.MaxReplicas = 20 }), threshold: 10, waiting: 1},
		{settings: "`threshold: 1`, `maxReplicas: 20`", policy: of(standard, func(p *scaling.Policy) { p.MaxReplicas = 20 }), threshold: 1, waiting: 30, active: 18},
		{settings: "`threshold: 1`, `minReplicas: 2`", policy: of(standard, func(p *scaling.Policy) { p.MinReplicas = 2 }), threshold: 1},
		{settings: "`threshold: 1`, `spareReplicas: 2`", policy: of(standard, func(p *scaling.Policy) { p.SpareReplicas = 2 }), threshold: 1, inProgress: 3, active: 3, claimed: 3},
		{settings: "`threshold: 10`, `activationThreshold: 50`", policy: of(standard, func(p *scaling.Policy) { p.ActivationThreshold = 50 }), threshold: 10, waiting: 50},
		{
			settings: "the same with `maxWaitSeconds: 60`, after a minute",
			policy:   of(standard, func(p *scaling.Policy) { p.ActivationThreshold = 50 }), threshold: 10, waiting: 50, overdue: true,
		},
	}
}

// writeCases writes the table of the worked cases.
func writeCases(text *strings.Builder) {
	text.WriteString(`## Worked cases

The code of the operator computed these numbers.

- *active*: Jobs that have not finished.
- *claimed*: active Jobs that have had a ready Pod for ` + "`claimGraceSeconds`" + `. Only ` + "`Accurate` and `Custom`" + ` use them.
- *desired*: Jobs that should be active.
- *created*: Jobs that the operator creates now.
- ` + "`maxReplicas`" + ` is 100, unless the settings have another number.

| settings | waiting | in progress | active | claimed | desired | created |
|---|---|---|---|---|---|---|
`)
	for _, each := range situations() {
		result := scaling.Decide(scaling.Observation{
			Queues:  []scaling.Queue{{Waiting: each.waiting, InProgress: each.inProgress, Threshold: each.threshold}},
			Overdue: each.overdue, Active: each.active, Claimed: each.claimed,
		}, each.policy)
		fmt.Fprintf(text, "| %s | %d | %d | %d | %d | %d | %d |\n",
			each.settings, each.waiting, each.inProgress, each.active, each.claimed, result.Desired, result.Create)
	}
	text.WriteString("\n")
}
