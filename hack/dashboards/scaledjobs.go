// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// inNamespaces selects the ScaledJobs of the namespaces that the user has selected.
const inNamespaces = `namespace=~"$namespace"`

// toScaledJob is the address of the dashboard of a ScaledJob. The names come from the series, or from a row of a table.
const (
	toScaledJob      = "/d/" + scaledJobUID + "?var-datasource=${datasource}&${__url_time_range}&var-namespace=${__field.labels.namespace}&var-scaledjob=${__field.labels.scaledjob}"
	toScaledJobOfRow = "/d/" + scaledJobUID + "?var-datasource=${datasource}&${__url_time_range}&var-namespace=${__data.fields.namespace}&var-scaledjob=${__data.fields.scaledjob}"
)

// Times after which an oldest message or a reaction is worth a look.
var (
	oldMessage   = steps(green, from(5*60, yellow), from(60*60, red))
	slowReaction = steps(green, from(1, red))
	anyIsBad     = steps(green, from(1, red))
	anyIsOdd     = steps(green, from(1, yellow))
)

// conditionStatus are the colors of a condition that should be True.
var conditionStatus = map[string]dashboard.ValueMappingResult{
	"True": shown("True", green), "False": shown("False", red), "Unknown": shown("Unknown", yellow),
}

// scaledJobs is the overview.
func scaledJobs() *page {
	p := newPage(scaledJobsUID, "ScaledJobs", "All ScaledJobs: which are not Ready or limited, how many messages wait, and how soon they get Jobs.",
		several("namespace", "Namespace", "label_values(scaledjob_reconcile_total, namespace)"))
	p.row("Now", 4,
		panel{
			kind: number, title: "ScaledJobs", unit: plain, steps: steps(blue), description: "ScaledJobs that the operator has reconciled.",
			queries: []query{{orZero("count(" + ofEach("scaledjob_reconcile_total", inNamespaces) + ")"), ""}},
		},
		panel{
			kind: number, title: "Not Ready", unit: plain, steps: anyIsBad,
			description: "ScaledJobs whose condition Ready is False or Unknown. The table below shows which, and the reasons.",
			queries:     []query{{orZero("count(" + ofEach("scaledjob_condition", inNamespaces+`,type="Ready",status!="True"`) + ")"), ""}},
		},
		panel{
			kind: number, title: "Limited", unit: plain, steps: anyIsOdd,
			description: "ScaledJobs whose condition ScalingLimited is True: something keeps Jobs from being created or from starting.",
			queries:     []query{{orZero("count(" + ofEach("scaledjob_condition", limited) + ")"), ""}},
		},
		panel{
			kind: number, title: "Outstanding messages", unit: plain, steps: steps(blue),
			description: "Messages in all queues when they were last read. A key that two ScaledJobs name counts twice.",
			queries:     []query{{orZero(sum("", ofKeys("scaledjob_queue_depth", inNamespaces))), ""}},
		},
		panel{
			kind: number, title: "Active Jobs", unit: plain, steps: steps(blue), description: "Jobs that have not finished.",
			queries: []query{{orZero(sum("", ofEach("scaledjob_active_jobs", inNamespaces))), ""}},
		},
		panel{
			kind: number, title: "Oldest message", unit: seconds, steps: oldMessage, empty: "No messages", description: "How long the oldest of all messages has waited. " + ageOfKeys,
			queries: []query{{"max(" + age("namespace, scaledjob", inNamespaces) + ")", ""}},
		})
	p.scaledJobsOverTime()
	p.scaledJobsCompared()
	return p
}

// limited selects the ScaledJobs that something limits.
const limited = inNamespaces + `,type="ScalingLimited",status="True"`

// ageOfKeys says what the age of a message is.
const ageOfKeys = "For streams, and for sorted sets with the window Due, this is the age of the message. For other queues it is the time since " +
	"the queue was last seen empty, which is longer."

func (p *page) scaledJobsOverTime() {
	p.row("Over time", 8,
		panel{
			kind: graph, title: "Not Ready, by reason", unit: plain, stacked: true, description: "ScaledJobs whose condition Ready is not True. No line means that all are Ready.",
			queries: []query{{"count by (reason) (" + most("namespace, scaledjob, reason", "scaledjob_condition", inNamespaces+`,type="Ready",status!="True"`) + ")", "{{reason}}"}},
		},
		panel{
			kind: graph, title: "Limited, by reason", unit: plain, stacked: true,
			description: "ScaledJobs whose condition ScalingLimited is True. No line means that none is limited.",
			queries:     []query{{"count by (reason) (" + most("namespace, scaledjob, reason", "scaledjob_condition", limited) + ")", "{{reason}}"}},
		},
		panel{
			kind: graph, title: "From push to Job", unit: seconds, steps: slowReaction,
			description: "Time from the first notification that has not been acted on, or from the first read that showed growth, until a Job was created. " +
				"Jobs that follow from regular reads of the queue are not in it.",
			queries: quantiles("scaledjob_event_to_create_seconds", inNamespaces),
		})
	p.row("", 8,
		panel{
			kind: graph, title: "Outstanding messages, by namespace", unit: plain, stacked: true, description: "Messages when the queues were last read.",
			queries: []query{{sum("namespace", ofKeys("scaledjob_queue_depth", inNamespaces)), "{{namespace}}"}},
		},
		panel{
			kind: graph, title: "Active Jobs, by namespace", unit: plain, stacked: true, description: "Jobs that have not finished, also those whose Pods are not ready.",
			queries: []query{{sum("namespace", ofEach("scaledjob_active_jobs", inNamespaces)), "{{namespace}}"}},
		},
		panel{
			kind: graph, title: "Jobs created and finished", unit: perMinute, description: "Jobs per minute.",
			queries: []query{
				{inMinute("", "scaledjob_jobs_created_total", inNamespaces), "created"},
				{inMinute("outcome", "scaledjob_jobs_finished_total", inNamespaces), "{{outcome}}"},
			},
		})
}

func (p *page) scaledJobsCompared() {
	p.row("Most messages, and oldest ones", 9,
		panel{
			kind: bars, title: "Top 10 by messages", unit: plain, steps: steps(blue), link: toScaledJob,
			description: "The ScaledJobs with the most outstanding messages. Click on one to see it.",
			queries:     []query{{"topk(10, " + sum("namespace, scaledjob", ofKeys("scaledjob_queue_depth", inNamespaces)) + ")", "{{namespace}}/{{scaledjob}}"}},
		},
		panel{
			kind: bars, title: "Top 10 by age", unit: seconds, steps: oldMessage, empty: "No messages", link: toScaledJob,
			description: "The ScaledJobs whose oldest message has waited the longest. " + ageOfKeys,
			queries:     []query{{"topk(10, " + age("namespace, scaledjob", inNamespaces) + ")", "{{namespace}}/{{scaledjob}}"}},
		})
	p.scaledJobsListed()
}

func (p *page) scaledJobsListed() {
	p.row("All ScaledJobs", 12, panel{
		kind: list, title: "ScaledJobs", unit: plain, description: "Click on a name to see the ScaledJob. Limited by is the reason of the condition ScalingLimited while it is True.",
		queries: []query{
			{most("namespace, scaledjob, status, reason", "scaledjob_condition", inNamespaces+`,type="Ready"`), ""},
			{limitedBy(), ""},
			{sum("namespace, scaledjob", ofKeys("scaledjob_queue_depth", inNamespaces)), ""},
			{age("namespace, scaledjob", inNamespaces), ""},
			{ofEach("scaledjob_active_jobs", inNamespaces), ""},
			{ofEach("scaledjob_desired_jobs", inNamespaces), ""},
			{ofEach("scaledjob_max_replicas", inNamespaces), ""},
		},
		columns: []column{
			{field: "namespace", title: "Namespace"},
			{field: "scaledjob", title: "ScaledJob", link: toScaledJobOfRow},
			{field: "status", title: "Ready", mappings: conditionStatus},
			{field: "reason", title: "Reason"},
			{field: "limited", title: "Limited by"},
			{field: "Value #C", title: "Messages"},
			{field: "Value #D", title: "Oldest message", unit: seconds},
			{field: "Value #E", title: "Active Jobs"},
			{field: "Value #F", title: "Desired Jobs"},
			{field: "Value #G", title: "Maximum"},
		},
	})
}

// limitedBy has the reason in a label of its own: rows of a table are merged by the labels that they share.
func limitedBy() string {
	return `max by (namespace, scaledjob, limited) (label_join(scaledjob_condition{` + limited + `}, "limited", "", "reason"))`
}
