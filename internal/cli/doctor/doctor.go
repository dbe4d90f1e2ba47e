// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package doctor says what is wrong with an installation of the operator and with a ScaledJob, and how to fix it. It is
// pure: its caller reads the objects, and package redis looks at the server.
//
//	doctor.go        what a report consists of, and the table of checks
//	installation.go  the CRD, the operator and its permissions, and KEDA
//	scaledjob.go     the ScaledJob, its Jobs and Pods
//	references.go    what a template and the access to Redis refer to
//	redis.go         what was seen of Redis
//	text.go          the report as text
package doctor

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/doctor/redis"
	"miracle.dev/scaledjob-operator/internal/preflight"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// Level says how bad a finding is.
type Level string

// The levels, from the least to the worst.
const (
	// OK means that nothing was found.
	OK Level = "ok"
	// Unchecked means that something could not be checked, for example because of missing permissions. It is no fault.
	Unchecked Level = "unchecked"
	// Warning means that something works less well than it could, or may be a mistake.
	Warning Level = "warning"
	// Error means that something does not work.
	Error Level = "error"
)

var levels = []Level{OK, Unchecked, Warning, Error}

// Finding is an answer to the question of a check.
type Finding struct {
	Level   Level  `json:"level"`
	Message string `json:"message"`
	// Fix says what to do; empty if there is nothing to do.
	Fix string `json:"fix,omitempty"`
}

// Result is what a check has found.
type Result struct {
	// ID names the check. It never changes.
	ID string `json:"id"`
	// Subject is what is checked: the installation, the ScaledJob or Redis.
	Subject  string `json:"subject"`
	Question string `json:"question"`
	// Level is the worst of the findings, of which there is at least one.
	Level    Level     `json:"level"`
	Findings []Finding `json:"findings"`
}

// Report is the result of all checks.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	// Name is that of the ScaledJob; absent if only the installation was checked.
	Name   string   `json:"name,omitempty"`
	Checks []Result `json:"checks"`
	// OnlyInCluster are checks that this program can't make where it runs.
	OnlyInCluster []string `json:"onlyInCluster"`
}

// Found reports whether something is wrong.
func (r *Report) Found() bool {
	return slices.ContainsFunc(r.Checks, func(is Result) bool { return is.Level == Warning || is.Level == Error })
}

// Facts are what a report is made of.
type Facts struct {
	// Version is that of this program, and Now the time at which the facts were read.
	Version string
	Now     time.Time
	// Namespace is the namespace of the checks.
	Namespace string
	// Missing has what could not be read, and why.
	Missing map[Need]string
	// Denied are the permissions that the user lacks, and OperatorDenied those that the operator lacks.
	Denied, OperatorDenied []Right
	// CRD is the CRD in the cluster, Operators are the Deployments of the operator, and KEDA the scalers of KEDA in the
	// namespace.
	CRD       CRD
	Operators []Operator
	KEDA      []KEDA
	// ScaledJob is the one to check; nil to check only the installation.
	ScaledJob *scaledjobv1.ScaledJob
	// Others are all other ScaledJobs that can be read.
	Others []scaledjobv1.ScaledJob
	// Job and Pod are the answers to dry runs.
	Job, Pod DryRun
	// References are the objects that the ScaledJob needs.
	References []Reference
	Quotas     []corev1.ResourceQuota
	Jobs       []*batchv1.Job
	Pods       []*corev1.Pod
	// Target is what was looked at in Redis, and Redis what was seen; nil if the ScaledJob was not checked, or if Redis
	// could not be reached. RedisFault says which value for the connection can't be used; nil if all can.
	Target     *redis.Target
	Redis      *redis.Facts
	RedisFault *failure.Error
}

// CRD is the CRD in the cluster.
type CRD struct {
	Served bool
	Fields preflight.Fields
}

// DryRun is the answer of the API server to a dry run.
type DryRun struct {
	Err      error
	Warnings []string
}

// Need is something that checks need and that may not be readable.
type Need string

// The needs.
const (
	NeedCRD            Need = "crd"
	NeedSchema         Need = "schema"
	NeedDeployments    Need = "deployments"
	NeedLease          Need = "lease"
	NeedRights         Need = "rights"
	NeedOperatorRights Need = "operator rights"
	NeedKEDA           Need = "keda"
	NeedJobDryRun      Need = "dry run of a Job"
	NeedPodDryRun      Need = "dry run of a Pod"
	NeedReferences     Need = "references"
	NeedQuotas         Need = "quotas"
	NeedJobs           Need = "jobs"
	NeedPods           Need = "pods"
	NeedRedis          Need = "redis"
)

// check is a question about the facts.
type check struct {
	id, subject, question string
	// needs are what has to be readable.
	needs []Need
	// run returns what is wrong, and fine is what to say if nothing is.
	run  func(*Facts) []Finding
	fine string
	// when reports whether the check makes sense; nil if it always does.
	when func(*Facts) bool
}

// The subjects.
const (
	installation = "Installation"
	scaledJob    = "ScaledJob"
	redisSubject = "Redis"
)

// checks are all checks, in the order of the report.
var checks = []check{
	{"crd", installation, "Is the CRD installed?", []Need{NeedCRD}, crd, "The CRD is installed.", nil},
	{
		"crd-version", installation, "Do the CRD and this program belong together?",
		[]Need{NeedCRD, NeedSchema},
		crdVersion,
		"The CRD has the fields that this program knows.", nil,
	},
	{"operator", installation, "Is the operator ready?", []Need{NeedDeployments}, operatorReady, "The operator is ready.", nil},
	{
		"operator-version", installation, "Do the operator and this program belong together?",
		[]Need{NeedDeployments},
		operatorVersion,
		"No difference between the versions is known.", nil,
	},
	{"leader", installation, "Is a replica the leader?", []Need{NeedDeployments, NeedLease}, leader, "A replica is the leader.", nil},
	{
		"one-operator", installation, "Is there only one operator for the namespace?",
		[]Need{NeedDeployments},
		oneOperator,
		"There is only one operator for the namespace.", nil,
	},
	{
		"operator-rights", installation, "May the operator do its work?",
		[]Need{NeedDeployments, NeedOperatorRights},
		operatorRights,
		"The operator has its permissions in the namespace.", nil,
	},
	{"rights", installation, "May you see what the checks need?", []Need{NeedRights}, rights, "You may see all that the checks need.", nil},
	{"conditions", scaledJob, "What does the operator report?", nil, conditions, "The operator reports no problem.", hasScaledJob},
	{
		"job", scaledJob, "Does the API server accept a Job?",
		[]Need{NeedJobDryRun},
		jobAccepted,
		"The API server accepts a Job of the template, without a warning.", hasScaledJob,
	},
	{
		"pod", scaledJob, "Does the API server accept a Pod?",
		[]Need{NeedPodDryRun},
		podAccepted,
		"The API server accepts a Pod of such a Job.", hasScaledJob,
	},
	{
		"references", scaledJob, "Is all there that the ScaledJob refers to?",
		[]Need{NeedReferences},
		references,
		"All objects are there that the ScaledJob refers to.", hasScaledJob,
	},
	{"quota", scaledJob, "Do quotas leave room?", []Need{NeedQuotas}, quotas, "No quota for Jobs and Pods is used up.", hasScaledJob},
	{"pods", scaledJob, "Do the Pods start?", []Need{NeedPods}, pods, "No Pod waits for its image or its node, or crashes.", hasScaledJob},
	{
		"workers-end", scaledJob, "Do the workers end?",
		[]Need{NeedJobs, NeedPods},
		workersEnd,
		"No worker seems to run without end.", hasScaledJob,
	},
	{
		"shared-key", scaledJob, "Are the keys those of this ScaledJob alone?", nil, sharedKeys,
		"No other ScaledJob that you may see counts the same key.", hasScaledJob,
	},
	{
		"keda", scaledJob, "Does KEDA leave the keys alone?",
		[]Need{NeedKEDA},
		kedaLeavesKeys,
		"KEDA does not scale by the same keys.", hasScaledJob,
	},
	{"redis", redisSubject, "Does Redis answer?", []Need{NeedRedis}, redisAnswers, "", hasTarget},
	{"redis-tls", redisSubject, "Are the certificates good?", nil, redisTLS, "Nothing is wrong with the certificates, if there are any.", isReached},
	{"redis-mode", redisSubject, "Is the server what the spec says?", nil, redisMode, "The server is what the spec says.", isReached},
	{
		"redis-keys", redisSubject, "May the user read the keys, and do they have their types?", nil, redisKeys,
		"The user may read the keys, and they have their types.", isReached,
	},
	{"redis-changes", redisSubject, "How does Redis report changes?", nil, redisChanges, "", isReached},
	{"redis-sentinels", redisSubject, "Do the sentinels agree?", nil, redisSentinels, "The sentinels agree on the master.", hasSentinels},
	{"redis-cluster", redisSubject, "Is the Cluster complete?", nil, redisCluster, "All slots have a master that answers.", hasCluster},
	{
		"redis-similar", redisSubject, "Are the names of the keys right?", nil, redisSimilar,
		"No empty key was found that has a similar one.", hasScanned,
	},
	{"redis-probe", redisSubject, "Does a notification arrive?", nil, redisProbe, "A notification arrived.", hasProbed},
}

func hasScaledJob(f *Facts) bool { return f.ScaledJob != nil }

// Examine makes the report.
func Examine(facts *Facts) Report {
	is := Report{Namespace: facts.Namespace, Checks: []Result{}, OnlyInCluster: []string{}}
	if facts.ScaledJob != nil {
		is.Name, is.OnlyInCluster = facts.ScaledJob.Name, onlyInCluster(facts)
	}
	for _, each := range checks {
		if each.when == nil || each.when(facts) {
			is.Checks = append(is.Checks, each.answer(facts))
		}
	}
	return is
}

// answer runs the check, unless what it needs could not be read.
func (c *check) answer(facts *Facts) Result {
	is := Result{ID: c.id, Subject: c.subject, Question: c.question, Level: OK, Findings: []Finding{}}
	for _, need := range c.needs {
		if why, missing := facts.Missing[need]; missing {
			is.Findings = []Finding{{Level: Unchecked, Message: why}}
		}
	}
	if len(is.Findings) == 0 {
		is.Findings = c.run(facts)
	}
	if len(is.Findings) == 0 {
		is.Findings = []Finding{{Level: OK, Message: c.fine}}
	}
	for _, found := range is.Findings {
		is.Level = levels[max(slices.Index(levels, is.Level), slices.Index(levels, found.Level))]
	}
	return is
}
