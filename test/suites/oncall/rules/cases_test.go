// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"maps"
	"strings"
)

// alertCase is when an alert fires. Series have one value a minute, in the notation of promtool, and the alerts are
// evaluated after three hours.
type alertCase struct {
	fires       map[string]string
	labels      map[string]string // other than those that the rule adds
	description string
	// eachReplica says that there is one alert for each replica.
	eachReplica bool
	// silent are changes with which it does not fire, and also are those with which it fires nevertheless.
	silent, also map[string]map[string]string
	// others are cases of the same alert with other labels or another description.
	others []alertCase
}

const (
	// none leaves a series out.
	none = "none"
	one  = "1x200"
	zero = "0x200"
)

// about are the labels of a ScaledJob.
var about = map[string]string{"namespace": "mail", "scaledjob": "worker"}

// of returns a series of the ScaledJob, with further labels: `outcome="failed"`.
func of(name string, labels ...string) string {
	return operator(name, append(labels, `namespace="mail"`, `queue="jobs"`, `scaledjob="worker"`)...)
}

// ofOther returns a series of another queue of the ScaledJob.
func ofOther(name string) string { return strings.Replace(of(name), "jobs", "other", 1) }

// operator returns a series of the operator.
func operator(name string, labels ...string) string {
	return name + "{" + strings.Join(append(labels, `instance="a"`, `job="operator"`), ",") + "}"
}

// ofServer returns a series of a Redis server.
func ofServer(name string, labels ...string) string {
	return operator(name, append(labels, `endpoint="redis:6379"`, `namespace="ops"`)...)
}

// refusals are the attempts to have keys tracked that failed.
var refusals = ofServer("scaledjob_redis_reconnects_total", `reason="PermissionDenied"`)

func condition(kind, status, reason string) string {
	return of("scaledjob_condition", `type="`+kind+`"`, `status="`+status+`"`, `reason="`+reason+`"`)
}

// succeeded are the Jobs that have succeeded.
var succeeded = of("scaledjob_jobs_finished_total", `outcome="succeeded"`)

// notReady is another reason for Ready.
func notReady(reason string) map[string]string {
	return map[string]string{condition("Ready", "False", "Unreachable"): none, condition("Ready", "False", reason): one}
}

// limitedBy is an alert because of one of these reasons of ScalingLimited. Only the runbook has them.
func limitedBy(description, first string, others ...string) alertCase {
	made := alertCase{
		fires: map[string]string{condition("ScalingLimited", "True", first): one}, labels: about, description: description,
		silent: map[string]map[string]string{
			"another reason": {condition("ScalingLimited", "True", first): none, condition("ScalingLimited", "True", "Suspended"): one},
			"no reason":      {condition("ScalingLimited", "True", first): none, condition("ScalingLimited", "False", "NotLimited"): one},
		},
		also: map[string]map[string]string{},
	}
	for _, other := range others {
		made.also[other] = map[string]string{condition("ScalingLimited", "True", first): none, condition("ScalingLimited", "True", other): one}
	}
	return made
}

// namingReason is an alert because of one of these reasons of ScalingLimited, which its label and its description have.
func namingReason(description string, reasons ...string) alertCase {
	var all []alertCase
	for _, reason := range reasons {
		made := limitedBy(description+reason+".", reason)
		made.labels = map[string]string{"namespace": "mail", "scaledjob": "worker", "reason": reason}
		all = append(all, made)
	}
	all[0].others = all[1:]
	return all[0]
}

// withoutExactTime are the series, and further ones, if only when the queue was last empty is known.
func withoutExactTime(more map[string]string) map[string]string {
	all := map[string]string{
		of("scaledjob_queue_oldest_message_timestamp_seconds"): none,
		of("scaledjob_queue_nonempty_since_timestamp_seconds"): "7200x200",
	}
	maps.Copy(all, more)
	return all
}

// slow are reactions of which this many of ten each minute take at most a second.
func slow(within, count string) map[string]string {
	return map[string]string{
		of("scaledjob_event_to_create_seconds_bucket", `le="1.0"`):  within,
		of("scaledjob_event_to_create_seconds_bucket", `le="2.5"`):  count,
		of("scaledjob_event_to_create_seconds_bucket", `le="+Inf"`): count,
		of("scaledjob_event_to_create_seconds_count"):               count,
	}
}

// cases are those of all alerts, by name.
var cases = map[string]alertCase{
	"ScaledJobNothingRuns": {
		fires: map[string]string{
			of("scaledjob_queue_depth"): "2x200", ofOther("scaledjob_queue_depth"): one, of("scaledjob_desired_jobs"): "3x200",
			of("scaledjob_active_jobs"): "2x200", of("scaledjob_pending_jobs"): "2x200",
		},
		labels:      about,
		description: "ScaledJob mail/worker has 3 outstanding messages, Jobs are due, and none has had a ready Pod for 10 minutes.",
		silent: map[string]map[string]string{
			"a Job runs":         {of("scaledjob_pending_jobs"): one},
			"no Job is due":      {of("scaledjob_desired_jobs"): zero},
			"no message waits":   {of("scaledjob_queue_depth"): zero, ofOther("scaledjob_queue_depth"): zero},
			"short Jobs succeed": {succeeded: "0+1x200"},
			"the first succeeds": {succeeded: "0x177 1x20"},
		},
		also: map[string]map[string]string{
			"there is no Job":    {of("scaledjob_active_jobs"): zero, of("scaledjob_pending_jobs"): zero},
			"one has succeeded":  {succeeded: "0x100 1x100"},
			"not suspended":      {of("scaledjob_suspend"): zero},
			"a previous replica": {strings.Replace(of("scaledjob_pending_jobs"), `"a"`, `"b"`, 1): "1x100 stale"},
		},
	},
	"ScaledJobMessagesOld": {
		fires: map[string]string{
			of("scaledjob_queue_oldest_message_timestamp_seconds"): "7200x200", of("scaledjob_desired_jobs"): one,
			of("scaledjob_active_jobs"): one, of("scaledjob_pending_jobs"): zero,
		},
		labels:      map[string]string{"namespace": "mail", "scaledjob": "worker", "queue": "jobs"},
		description: "Messages in the queue jobs of ScaledJob mail/worker have been outstanding for up to 1h 0m 0s.",
		silent: map[string]map[string]string{
			"a new message each minute": {of("scaledjob_queue_oldest_message_timestamp_seconds"): "0+60x200"},
			"below the activation":      {of("scaledjob_desired_jobs"): zero},
			"an exact time counts, not when the queue was empty": {
				of("scaledjob_queue_oldest_message_timestamp_seconds"): "0+60x200",
				of("scaledjob_queue_nonempty_since_timestamp_seconds"): "7200x200",
			},
			"no exact time, and a Job works": withoutExactTime(nil),
			"no exact time, and Jobs succeed": withoutExactTime(map[string]string{
				of("scaledjob_active_jobs"): zero, succeeded: "0+1x200",
			}),
		},
		also: map[string]map[string]string{
			"no exact time, and no Job runs": withoutExactTime(map[string]string{of("scaledjob_pending_jobs"): one}),
			"no exact time, and a Job has succeeded long ago": withoutExactTime(map[string]string{
				of("scaledjob_pending_jobs"): one, succeeded: "0x20 1x180",
			}),
		},
	},
	"ScaledJobNotReady": {
		fires:       map[string]string{condition("Ready", "False", "Unreachable"): one},
		labels:      about,
		description: "ScaledJob mail/worker is not Ready. Reason: Unreachable.",
		silent: map[string]map[string]string{
			"Ready":           {condition("Ready", "False", "Unreachable"): none, condition("Ready", "True", "Reconciled"): one},
			"creates refused": notReady("CreateRefused"),
			"creates failing": notReady("CreateFailing"),
			"it ends":         {condition("Ready", "False", "Unreachable"): "1x175 stale", condition("Ready", "True", "Reconciled"): "_x176 1x20"},
		},
	},
	"ScaledJobCreatesFail": namingReason(
		"Jobs of ScaledJob mail/worker are due, and the API server creates none. Reason: ", "CreateRefused", "CreateFailing"),
	"ScaledJobJobsFail": namingReason(
		"Job creation of ScaledJob mail/worker is limited. Reason: ", "JobsFailing", "NoProgress", "MessagesOrphaned"),
	"ScaledJobAtMaximum": limitedBy(
		"More Jobs of ScaledJob mail/worker have been due for an hour than spec.maxReplicas allows.", "AtMaxReplicas"),
	"ScaledJobJobsNotStarting": jobsNotStarting(),
	"ScaledJobPolls": {
		fires:       map[string]string{of("scaledjob_mode", `mode="Polling"`): one, of("scaledjob_queue_depth"): "0+1x200"},
		labels:      about,
		description: "The operator polls the queue of ScaledJob mail/worker, because Redis neither sends notifications nor tracks its keys.",
		silent: map[string]map[string]string{
			"it is idle":                                  {of("scaledjob_queue_depth"): "4x200"},
			"another mode":                                {of("scaledjob_mode", `mode="Polling"`): zero, of("scaledjob_mode", `mode="Tracking"`): one},
			"the spec says so":                            {condition("NotificationsActive", "False", "Disabled"): one},
			"Redis is down":                               {condition("Ready", "False", "Unreachable"): one},
			"only since a moment":                         {of("scaledjob_mode", `mode="Polling"`): "0x160 1x40"},
			"idle since the previous replica ended":       afterAnother("160"),
			"idle for as long since the previous replica": afterAnother("149"),
		},
		also: map[string]map[string]string{
			"not configured":            {condition("NotificationsActive", "False", "NotConfigured"): one},
			"the spec asks to track it": {condition("NotificationsActive", "False", "NotSubscribed"): one},
		},
	},
	"ScaledJobEventsLost": {
		fires:  map[string]string{of("scaledjob_notifications_missed_total"): "0+1x200"},
		labels: about,
		description: "The queue of ScaledJob mail/worker has grown, and neither a notification nor a message about a tracked key " +
			"arrived.",
		silent: map[string]map[string]string{
			"none is lost": {of("scaledjob_notifications_missed_total"): "5x200"},
			"long ago":     {of("scaledjob_notifications_missed_total"): "0+1x100 100x100"},
		},
	},
	"ScaledJobReconcileErrors": {
		fires:  map[string]string{of("scaledjob_reconcile_errors_total"): "0+1x200"},
		labels: about,
		description: "Reconciles of ScaledJob mail/worker have ended with errors for 15 minutes, although it is Ready. The operator's " +
			"log has them.",
		silent: map[string]map[string]string{
			"none":      {of("scaledjob_reconcile_errors_total"): "5x200"},
			"one":       {of("scaledjob_reconcile_errors_total"): "0x172 1x40"},
			"not Ready": {condition("Ready", "False", "AuthFailed"): one},
		},
		also: map[string]map[string]string{"Ready": {condition("Ready", "True", "Reconciled"): one}},
	},
	"ScaledJobReactionsSlow": {
		fires:       slow("0+8x200", "0+10x200"),
		labels:      map[string]string{"namespace": "mail"},
		description: "20% of the reactions to messages of the ScaledJobs in namespace mail took longer than a second.",
		silent: map[string]map[string]string{
			"all in time":         slow("0+10x200", "0+10x200"),
			"one in a hundred":    slow("0+99x200", "0+100x200"),
			"hours ago":           slow("0+8x90 730+10x110", "0+10x200"),
			"only a moment":       slow("0+10x175 1758+8x25", "0+10x200"),
			"few reactions":       slow("0x200", "0x100 1x30 2x30 3x40"),
			"no reaction":         slow("7x200", "9x200"),
			"native, all in time": native("{{schema:0 count:10 sum:5 buckets:[10]}}", "{{schema:0 count:10 sum:5 buckets:[10]}}"),
		},
		also: map[string]map[string]string{
			"before Prometheus 3": {
				of("scaledjob_event_to_create_seconds_bucket", `le="1.0"`): none,
				of("scaledjob_event_to_create_seconds_bucket", `le="1"`):   "0+8x200",
			},
			"native": native("{{schema:0 count:10 sum:5 buckets:[8 2]}}", "{{schema:0 count:10 sum:5 buckets:[8 2]}}"),
		},
	},
	"ScaledJobOperatorWithoutLeader": {
		fires:       map[string]string{operator("scaledjob_leader", `namespace="ops"`): zero},
		labels:      map[string]string{"namespace": "ops", "job": "operator"},
		description: "No operator of job operator in namespace ops holds the Lease, or Prometheus does not reach any.",
		silent: map[string]map[string]string{
			"it leads":          {operator("scaledjob_leader", `namespace="ops"`): one},
			"another one leads": {strings.Replace(operator("scaledjob_leader", `namespace="ops"`), `"a"`, `"b"`, 1): one},
			"they take turns":   {operator("scaledjob_leader", `namespace="ops"`): "1x170 0x2 1x30"},
			"it leads again":    {operator("scaledjob_leader", `namespace="ops"`): "0x176 1x30"},
		},
		also: map[string]map[string]string{
			"another installation leads": {strings.Replace(operator("scaledjob_leader", `namespace="ops"`), "ops", "other", 1): one},
		},
	},
	"ScaledJobTrackingDown": {
		fires:       map[string]string{ofServer("scaledjob_tracking_up", `database="0"`): zero, refusals: "0+1x200"},
		labels:      map[string]string{"job": "operator", "database": "0", "endpoint": "redis:6379"},
		description: "The operator can't have redis:6379 track keys of database 0, so it polls the queues there.",
		silent: map[string]map[string]string{
			"it tracks":                  {ofServer("scaledjob_tracking_up", `database="0"`): one},
			"for a moment":               {ofServer("scaledjob_tracking_up", `database="0"`): "1x175 0x30"},
			"the server is down":         {refusals: "0x20 1x200"},
			"it has gone down a moment":  {refusals: "0x163 1x40"},
			"notifications work instead": {ofServer("scaledjob_tracking_up", `database="0"`): none, ofServer("scaledjob_watcher_up"): one},
		},
	},
	"ScaledJobReconcilesParked": {
		fires:  map[string]string{operator("scaledjob_reconciles_parked", `namespace="mail"`): "7x200"},
		labels: map[string]string{"namespace": "mail"},
		description: "7 requests for reconciles of ScaledJobs in namespace mail wait, because others have the share of the workers that " +
			"the namespace may use.",
		silent: map[string]map[string]string{
			"now and then": {operator("scaledjob_reconciles_parked", `namespace="mail"`): "7x170 _ _ _ _ _ _ 7x20"},
		},
	},
	"ScaledJobCertificateExpires": {
		fires:       map[string]string{of("scaledjob_certificate_expiry_timestamp_seconds"): "874800x200"},
		labels:      about,
		description: "A certificate in the Secrets that ScaledJob mail/worker names for TLS expires in 10d 0h 0m 0s.",
		silent: map[string]map[string]string{
			"it has a month": {of("scaledjob_certificate_expiry_timestamp_seconds"): "2592000x200"},
		},
	},
	"ScaledJobOperatorMemory": {
		fires: map[string]string{
			operator("process_resident_memory_bytes"): "475x200", operator("go_gc_gomemlimit_bytes"): "500x200",
			operator("scaledjob_build_info", `go_version="go1.26"`, `version="v1.0.0"`): one,
		},
		labels:      map[string]string{"instance": "a", "job": "operator"},
		description: "The operator a uses 95% of its memory limit.",
		eachReplica: true,
		silent: map[string]map[string]string{
			"it has room":     {operator("process_resident_memory_bytes"): "400x200"},
			"it has no limit": {operator("go_gc_gomemlimit_bytes"): "9.2e18x200"},
			"another program": {operator("scaledjob_build_info", `go_version="go1.26"`, `version="v1.0.0"`): none},
		},
	},
}

// afterAnother are the series if another replica saw the queue change, and this one leads since that minute and sees
// none.
func afterAnother(minute string) map[string]string {
	on := func(series string) string { return strings.Replace(series, `"a"`, `"b"`, 1) }
	mode, depth := of("scaledjob_mode", `mode="Polling"`), of("scaledjob_queue_depth")
	return map[string]string{
		on(mode): "0x" + minute + " stale", on(depth): "0+1x" + minute + " stale",
		mode: "_x" + minute + " 1x60", depth: "_x" + minute + " 7x60",
	}
}

// native are the reactions as native histograms, each minute.
func native(first, more string) map[string]string {
	return map[string]string{
		of("scaledjob_event_to_create_seconds_bucket", `le="1.0"`):  none,
		of("scaledjob_event_to_create_seconds_bucket", `le="2.5"`):  none,
		of("scaledjob_event_to_create_seconds_bucket", `le="+Inf"`): none,
		of("scaledjob_event_to_create_seconds_count"):               none,
		of("scaledjob_event_to_create_seconds"):                     first + "+" + more + "x200",
	}
}

func jobsNotStarting() alertCase {
	made := limitedBy("Jobs of ScaledJob mail/worker are suspended, or have had no ready Pod, for 30 minutes.",
		"JobsNotStarting", "AtMaxPending", "JobsSuspended")
	without := func(active, pending, finished string) map[string]string {
		return map[string]string{
			condition("ScalingLimited", "True", "JobsNotStarting"): none,
			of("scaledjob_active_jobs"):                            active, of("scaledjob_pending_jobs"): pending, succeeded: finished,
		}
	}
	made.silent["some start, but not all that are due"] = map[string]string{succeeded: "0+1x200"}
	made.silent["other pending Jobs start"] = map[string]string{
		condition("ScalingLimited", "True", "JobsNotStarting"): none, condition("ScalingLimited", "True", "AtMaxPending"): one,
		succeeded: "0+1x200",
	}
	made.also["no Job is due, and those that exist are pending"] = without("2x200", "2x200", "_x200")
	made.also["a Job has succeeded long ago"] = without("2x200", "2x200", "0x20 1x180")
	made.silent["one runs"] = without("2x200", one, "_x200")
	made.silent["there are no Jobs"] = without(zero, zero, "_x200")
	made.silent["short Jobs succeed"] = without("2x200", "2x200", "0+1x200")
	return made
}
