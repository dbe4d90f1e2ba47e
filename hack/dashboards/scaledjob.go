// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// ofScaledJob selects the series of the ScaledJob that the user has selected.
const ofScaledJob = `namespace="$namespace",scaledjob="$scaledjob"`

// yesIsOdd shows a gauge of 0 and 1.
var yesIsOdd = map[string]dashboard.ValueMappingResult{"0": shown("No", green), "1": shown("Yes", yellow)}

const day = 24 * 60 * 60

// scaledJob is the dashboard of one ScaledJob.
func scaledJob() *page {
	p := newPage(scaledJobUID, "ScaledJob", "One ScaledJob: its queue, its Jobs, and what keeps Jobs from being created.",
		variable("namespace", "Namespace", "label_values(scaledjob_reconcile_total, namespace)"),
		variable("scaledjob", "ScaledJob", `label_values(scaledjob_reconcile_total{namespace="$namespace"}, scaledjob)`))
	p.scaledJobNow()
	p.scaledJobWork()
	p.scaledJobSpeed()
	p.scaledJobConditions()
	p.scaledJobTrouble()
	return p
}

func (p *page) scaledJobWork() {
	p.row("Queue and Jobs", 9,
		panel{
			kind: graph, title: "Outstanding messages, by key", unit: plain, stacked: true, description: "Messages when the queue was last read, for each key.",
			queries: []query{{most("queue", "scaledjob_queue_depth", ofScaledJob), "{{queue}}"}},
		},
		panel{
			kind: graph, title: "Jobs", unit: plain,
			description: "Desired Jobs should be active; while the ScaledJob is suspended, they would be. Pending ones have no ready Pod. Suspended ones are not admitted, for " +
				"example by Kueue. Maximum is spec.maxReplicas.",
			queries: []query{
				{"max(scaledjob_desired_jobs{" + ofScaledJob + "})", "desired"},
				{"max(scaledjob_active_jobs{" + ofScaledJob + "})", "active"},
				{"max(scaledjob_pending_jobs{" + ofScaledJob + "})", "pending"},
				{"max(scaledjob_suspended_jobs{" + ofScaledJob + "})", "suspended"},
				{"max(scaledjob_max_replicas{" + ofScaledJob + "})", "maximum"},
			},
		})
}

func (p *page) scaledJobSpeed() {
	p.row("", 8,
		panel{
			kind: graph, title: "Jobs created and finished", unit: perMinute, description: "Jobs per minute. Failed Jobs have used up their retries.",
			queries: []query{
				{inMinute("", "scaledjob_jobs_created_total", ofScaledJob), "created"},
				{inMinute("outcome", "scaledjob_jobs_finished_total", ofScaledJob), "{{outcome}}"},
			},
		},
		panel{
			kind: graph, title: "From push to Job", unit: seconds, steps: slowReaction,
			description: "Time from the first notification that has not been acted on, or from the first read that showed growth, until a Job was created.",
			queries:     quantiles("scaledjob_event_to_create_seconds", ofScaledJob),
		},
		panel{
			kind: graph, title: "Oldest message, by key", unit: seconds, steps: oldMessage, description: ageOfKeys,
			queries: []query{{age("queue", ofScaledJob), "{{queue}}"}},
		})
}

func (p *page) scaledJobNow() {
	p.row("Now", 4,
		panel{
			kind: number, title: "Ready", unit: plain, names: true, steps: steps(red, from(1, green)), empty: "Not seen yet",
			description: "The reason of the condition Ready. It is green while the condition is True.",
			queries: []query{{most("reason", "scaledjob_condition", ofScaledJob+`,type="Ready",status="True"`) + " or 0 * " +
				most("reason", "scaledjob_condition", ofScaledJob+`,type="Ready",status!="True"`), "{{reason}}"}},
		},
		panel{
			kind: number, title: "Mode", unit: plain, names: true, steps: steps(blue), empty: "Not known yet",
			description: "How the operator learns of new messages. In the mode Polling, it learns of them only when it reads the queue.",
			queries:     []query{{most("mode", "scaledjob_mode", ofScaledJob) + " == 1", "{{mode}}"}},
		},
		panel{
			kind: number, title: "Suspended", unit: plain, mappings: yesIsOdd, description: "Whether spec.suspend is true. Then the operator creates no Jobs.",
			queries: []query{{"max(scaledjob_suspend{" + ofScaledJob + "})", ""}},
		},
		panel{
			kind: number, title: "Creation pauses", unit: plain, mappings: yesIsOdd, description: "Whether the operator creates no Jobs for a while, because Jobs fail, make no progress or are refused.",
			queries: []query{{"max(scaledjob_creation_pausing{" + ofScaledJob + "})", ""}},
		},
		panel{
			kind: number, title: "Outstanding messages", unit: plain, steps: steps(blue), description: "Messages in all keys when the queue was last read.",
			queries: []query{{sum("", most("queue", "scaledjob_queue_depth", ofScaledJob)), ""}},
		},
		panel{
			kind: number, title: "Oldest message", unit: seconds, steps: oldMessage, empty: "No messages", description: ageOfKeys,
			queries: []query{{"max(" + age("queue", ofScaledJob) + ")", ""}},
		},
		panel{
			kind: number, title: "Queue last read", unit: seconds, description: "How long ago the operator last read the depth.",
			queries: []query{{"clamp_min(time() - max(scaledjob_last_read_timestamp_seconds{" + ofScaledJob + "}), 0)", ""}},
		},
		panel{
			kind: number, title: "Certificates expire", unit: seconds, steps: steps(red, from(14*day, yellow), from(30*day, green)), empty: "No certificates",
			description: "How soon the first certificate in the Secrets that the ScaledJob names for TLS expires.",
			queries:     []query{{"min(scaledjob_certificate_expiry_timestamp_seconds{" + ofScaledJob + "}) - time()", ""}},
		})
}

func (p *page) scaledJobConditions() {
	p.row("Conditions", 9,
		panel{
			kind: list, title: "Conditions", unit: plain, description: "The conditions in the status of the ScaledJob. kubectl describe also shows their messages.",
			queries: []query{{most("type, status, reason", "scaledjob_condition", ofScaledJob), ""}},
			columns: []column{{field: "type", title: "Condition"}, {field: "status", title: "Status"}, {field: "reason", title: "Reason"}},
		},
		panel{
			kind: timeline, title: "Conditions over time", unit: plain, description: "When which condition had which status and reason.", steps: steps(blue),
			queries: []query{{most("type, status, reason", "scaledjob_condition", ofScaledJob), "{{type}} {{status}}: {{reason}}"}},
		},
		panel{
			kind: timeline, title: "Mode over time", unit: plain, description: "How the operator learned of new messages.", steps: steps("transparent", from(1, blue)),
			mappings: map[string]dashboard.ValueMappingResult{"0": {Text: new("No")}, "1": {Text: new("Yes")}},
			queries:  []query{{most("mode", "scaledjob_mode", ofScaledJob), "{{mode}}"}},
		})
}

func (p *page) scaledJobTrouble() {
	p.row("Trouble", 8,
		panel{
			kind: graph, title: "Refused creates", unit: perMinute, description: "Reconciles per minute in which the API server refused to create a Job, by who refused it. No line means that none was refused.",
			queries: []query{{inMinute("by", "scaledjob_creates_refused_total", ofScaledJob), "{{by}}"}},
		},
		panel{
			kind: graph, title: "Reconciles", unit: perMinute, description: "Reconciles per minute, and those that had an error from Redis or from the API server, or found a spec that can't be used.",
			queries: []query{
				{inMinute("", "scaledjob_reconcile_total", ofScaledJob), "reconciles"},
				{inMinute("", "scaledjob_reconcile_errors_total", ofScaledJob), "with an error"},
			},
		},
		panel{
			kind: graph, title: "Missed notifications", unit: perMinute, description: "How often the queue grew and Redis sent no notification, or did not report the growth of a tracked key.",
			queries: []query{{inMinute("", "scaledjob_notifications_missed_total", ofScaledJob), "missed"}},
		})
}
