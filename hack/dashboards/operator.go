// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// ofOperator selects the series of the operators that the user has selected. Each is a job of Prometheus.
const ofOperator = `job=~"$job"`

// upOrDown shows a gauge of 0 and 1.
var upOrDown = map[string]dashboard.ValueMappingResult{"0": shown("No", red), "1": shown("Yes", green)}

// operator is the dashboard of the operator itself.
func operator() *page {
	p := newPage(operatorUID, "ScaledJob operator", "The operator itself: its replicas, its reconciles, and its connections to the API server and to Redis.",
		several("job", "Operator", "label_values(scaledjob_build_info, job)"))
	p.operatorNow()
	p.operatorReconciles()
	p.operatorRedis()
	p.row("Processes", 8,
		panel{
			kind: graph, title: "Memory", unit: bytes, description: "Resident memory of each replica, and its soft limit GOMEMLIMIT where one is set.",
			queries: []query{
				{most("pod, instance", "process_resident_memory_bytes", ofOperator), "{{pod}} {{instance}}"},
				{most("pod, instance", "go_gc_gomemlimit_bytes", ofOperator) + " < 1e15", "{{pod}} {{instance}} limit"},
			},
		},
		panel{
			kind: graph, title: "CPU", unit: cores, description: "Processors that each replica keeps busy.",
			queries: []query{{rate("pod, instance", "process_cpu_seconds_total", ofOperator), "{{pod}} {{instance}}"}},
		},
		panel{
			kind: graph, title: "Goroutines", unit: plain, description: "Goroutines of each replica. They grow with the number of Redis servers, and should not grow for days.",
			queries: []query{{most("pod, instance", "go_goroutines", ofOperator), "{{pod}} {{instance}}"}},
		},
		panel{
			kind: graph, title: "Longest pause of the garbage collector", unit: seconds, description: "The longest of the latest pauses of the Go runtime, in each replica.",
			queries: []query{{most("pod, instance", "go_gc_duration_seconds", ofOperator+`,quantile=~"1|1.0"`), "{{pod}} {{instance}}"}},
		})
	return p
}

func (p *page) operatorNow() {
	p.row("Now", 4,
		panel{
			kind: number, title: "Leaders", unit: plain, steps: steps(red, from(1, green), from(2, red)),
			description: "Replicas that create Jobs. There should be one; without one, no Jobs are created.",
			queries:     []query{{sum("job", "scaledjob_leader{"+ofOperator+"}"), "{{job}}"}},
		},
		panel{
			kind: number, title: "Replicas", unit: plain, steps: steps(red, from(1, yellow), from(2, green)), description: "Replicas that Prometheus reads. With only one, nobody takes over at once.",
			queries: []query{{"count by (job) (" + most("job, pod, instance", "scaledjob_leader", ofOperator) + ")", "{{job}}"}},
		},
		panel{
			kind: number, title: "Reconciles that wait", unit: plain, steps: steps(green, from(100, yellow), from(1000, red)),
			description: "Reconciles that wait because all that may run at a time do, and those that wait because others of their namespace have its share.",
			queries:     []query{{"sum(workqueue_depth{" + ofOperator + "}) + (" + orZero("sum(scaledjob_reconciles_parked{"+ofOperator+"})") + ")", ""}},
		},
		panel{
			kind: number, title: "Servers without notifications", unit: plain, steps: anyIsOdd,
			description: "Redis servers that neither send notifications nor track keys for the operator. Their queues are read at intervals.",
			queries: []query{{orZero("count(" + most("endpoint", "scaledjob_watcher_up", ofOperator) + " == 0 unless on (endpoint) " +
				most("endpoint", "scaledjob_tracking_up", ofOperator) + " == 1)"), ""}},
		})
	p.replicas()
}

func (p *page) replicas() {
	p.row("", 6, panel{
		kind: list, title: "Replicas", unit: plain, description: "The version of each replica, whether it is the leader, and how long ago it started.",
		queries: []query{
			{most("job, pod, instance, version, go_version", "scaledjob_build_info", ofOperator), ""},
			{most("job, pod, instance", "scaledjob_leader", ofOperator), ""},
			{"time() - " + most("job, pod, instance", "process_start_time_seconds", ofOperator), ""},
		},
		columns: []column{
			{field: "job", title: "Operator"},
			{field: "pod", title: "Pod"},
			{field: "instance", title: "Address"},
			{field: "version", title: "Version"},
			{field: "go_version", title: "Go"},
			{field: "Value #B", title: "Leader", mappings: map[string]dashboard.ValueMappingResult{"0": {Text: new("No")}, "1": shown("Yes", green)}},
			{field: "Value #C", title: "Started", unit: seconds},
		},
	})
}

func (p *page) operatorReconciles() {
	p.row("Reconciles", 8,
		panel{
			kind: graph, title: "Reconciles, by result", unit: perSecond, description: "Reconciles per second. The result requeue_after is usual: the operator comes back after a while.",
			queries: []query{{rate("result", "controller_runtime_reconcile_total", ofOperator), "{{result}}"}},
		},
		panel{
			kind: graph, title: "Duration of reconciles", unit: seconds, steps: slowReaction, description: "How long a reconcile takes, with its requests to Redis and to the API server.",
			queries: quantiles("controller_runtime_reconcile_time_seconds", ofOperator),
		},
		panel{
			kind: graph, title: "Workers", unit: plain, description: "Reconciles that run, and how many may run at the same time.",
			queries: []query{
				{"max(controller_runtime_active_workers{" + ofOperator + "})", "running"},
				{"max(controller_runtime_max_concurrent_reconciles{" + ofOperator + "})", "at most"},
			},
		})
	p.row("", 8,
		panel{
			kind: graph, title: "Reconciles that wait", unit: plain, stacked: true,
			description: "Reconciles that wait because all that may run at a time do, and, by namespace, those that are parked: others of their namespace have its share.",
			queries: []query{
				{sum("name", "workqueue_depth{"+ofOperator+"}"), "for a worker: {{name}}"},
				{most("namespace", "scaledjob_reconciles_parked", ofOperator), "parked: {{namespace}}"},
			},
		},
		panel{
			kind: graph, title: "Time until a worker is free", unit: seconds, steps: slowReaction, description: "How long reconciles wait for a worker.",
			queries: quantiles("workqueue_queue_duration_seconds", ofOperator),
		},
		panel{
			kind: graph, title: "Requests to the API server", unit: perSecond, description: "Requests per second, by method and HTTP status. 429 means that the API server is overloaded.",
			queries: []query{{rate("method, code", "rest_client_requests_total", ofOperator), "{{method}} {{code}}"}},
		})
}

func (p *page) operatorRedis() {
	p.row("Redis servers", 8,
		panel{
			kind: timeline, title: "Subscribed to notifications", unit: plain, mappings: upOrDown, description: "Whether the operator is subscribed to notifications of a server. It is not where the server tracks keys instead.",
			queries: []query{{most("endpoint", "scaledjob_watcher_up", ofOperator), "{{endpoint}}"}},
		},
		panel{
			kind: timeline, title: "Keys tracked", unit: plain, mappings: upOrDown, empty: "No keys are tracked", description: "Whether a server tracks keys for the operator. Servers that send notifications are not shown.",
			queries: []query{{most("endpoint, database", "scaledjob_tracking_up", ofOperator), "{{endpoint}} database {{database}}"}},
		},
		panel{
			kind: graph, title: "Connections lost", unit: perMinute, description: "Lost connections for notifications or tracking, and failed attempts to begin either, by reason.",
			queries: []query{{inMinute("endpoint, reason", "scaledjob_redis_reconnects_total", ofOperator), "{{reason}}: {{endpoint}}"}},
		})
	p.row("", 8,
		panel{
			kind: graph, title: "Notifications, by server", unit: perSecond, description: "Notifications, and messages about tracked keys, per second.",
			queries: []query{
				{rate("endpoint", "scaledjob_notifications_received_total", ofOperator), "{{endpoint}}"},
				{rate("endpoint", "scaledjob_invalidations_received_total", ofOperator), "{{endpoint}}, tracked"},
			},
		},
		panel{
			kind: graph, title: "Notifications without a reconcile of their own", unit: perSecond, description: "Notifications that started no reconcile of their own, because one was already pending.",
			queries: []query{{rate("", "scaledjob_notifications_coalesced_total", ofOperator), "coalesced"}},
		},
		panel{
			kind: graph, title: "Duration of reads", unit: seconds, steps: steps(green, from(0.1, yellow), from(1, red)), description: "How long reads of queues take. Reads that failed are not in it.",
			queries: quantiles("scaledjob_queue_read_seconds", ofOperator),
		})
}
