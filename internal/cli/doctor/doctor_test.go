// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/doctor/redis"
	"miracle.dev/scaledjob-operator/internal/preflight"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	is := new(T)
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(text), is)).To(Succeed())
	return is
}

// emails is a ScaledJob in which nothing is wrong.
func emails(t *testing.T) *scaledjobv1.ScaledJob {
	t.Helper()
	return parse[scaledjobv1.ScaledJob](t, `
metadata: {namespace: mail, name: emails, uid: u}
spec: {queueName: emails, redisAddress: "redis.mail.svc:6379", threshold: 10, jobTemplate: {spec: {template: {spec: {containers: [{name: worker}]}}}}}
status:
  queueDepth: 0
  mode: Tracking
  conditions:
  - {type: Ready, status: "True", reason: Reconciled, message: It works., lastTransitionTime: null}
  - {type: NotificationsActive, status: "False", reason: NotConfigured, message: Redis sends none., lastTransitionTime: null}
`)
}

func TestOperatorOfReadsTheFlags(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	is := OperatorOf(parse[appsv1.Deployment](t, `
metadata: {namespace: ops, name: manager}
spec:
  template:
    spec:
      containers:
      - image: registry.example:5000/scaledjob-operator:v1.2.3@sha256:0
        args: [--leader-elect, --leader-election-id, b, -watch-namespaces=a, "--watch-namespaces=b, c"]
`))
	g.Expect(is).To(Equal(Operator{
		Namespace: "ops", Name: "manager", Version: "v1.2.3", Wanted: 1, ServiceAccount: "default", Watches: []string{"a", "b", "c"},
		Elects: true, LeaseNamespace: "ops", LeaseName: "b",
	}))
	g.Expect(is.IsFor("a")).To(BeTrue())
	g.Expect(is.IsFor("d")).To(BeFalse())
	is = OperatorOf(parse[appsv1.Deployment](t, `{spec: {template: {spec: {containers: [{image: "localhost:5000/o", args: [--leader-elect=false]}]}}}}`))
	g.Expect(is).To(And(HaveField("Elects", BeFalse()), HaveField("Version", BeEmpty()), HaveField("Watches", BeEmpty())))
}

func TestVersionsThatDoNotBelongTogether(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for versions, count := range map[[2]string]int{
		{"v1.2.3", "v1.2.9"}: 0, {"v1.2.3", "1.3.0"}: 1, {"v1.2.3-4-gabc", "v2.2.3"}: 1, {"dev", "v1.2.3"}: 0, {"v1.2.3", "latest"}: 0, {"v1.2.3", ""}: 0,
	} {
		f := &Facts{Version: versions[0], Operators: []Operator{{Version: versions[1]}}}
		g.Expect(operatorVersion(f)).To(HaveLen(count), "%v", versions)
	}
	f := &Facts{CRD: CRD{Served: true, Fields: preflight.Fields{Missing: []string{"spec.a"}, Unknown: []string{"spec.b"}}}}
	g.Expect(crdVersion(f)).To(HaveExactElements(
		HaveField("Message", ContainSubstring("It lacks: spec.a.")), HaveField("Message", ContainSubstring("does not know: spec.b.")),
	))
}

func TestWhatTheConditionsMean(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	f := &Facts{ScaledJob: emails(t)}
	g.Expect(conditions(f)).To(BeEmpty(), "tracking is as good as notifications")
	f.ScaledJob.Status.Mode = scaledjobv1.ModePolling
	g.Expect(conditions(f)).To(ConsistOf(HaveField("Level", Warning)))
	f.ScaledJob.Generation = 2
	g.Expect(conditions(f)).To(HaveLen(2))
	f.ScaledJob.Status.Conditions = []metav1.Condition{
		{Type: "Ready", Status: "False", Reason: "AuthFailed", Message: "No."},
		{Type: "QueueConnected", Status: "False", Reason: "AuthFailed", Message: "No."},
		{Type: "ScalingLimited", Status: "True", Reason: "AtMaxReplicas", Message: "More are due."},
		{Type: "Stalled", Status: "True", Reason: "AuthFailed", Message: "No."},
	}
	f.ScaledJob.Generation = 0
	g.Expect(conditions(f)).To(ConsistOf(Finding{Error, "Ready is False (AuthFailed): No.", "docs/operations/troubleshooting.md#authfailed says what to do."}))
	f.ScaledJob.Spec.MaxReplicas = new(int32(0))
	f.ScaledJob.Status.Conditions = nil
	g.Expect(conditions(f)).To(ConsistOf(HaveField("Message", "The operator has not reported anything about the ScaledJob.")))
}

func TestWorkersThatNeverEnd(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	job := parse[batchv1.Job](t, `
metadata: {ownerReferences: [{apiVersion: batch.miracle.dev/v1, kind: ScaledJob, name: emails, uid: u, controller: true}]}
status: {active: 1, ready: 1, startTime: "2026-03-01T10:00:00Z"}
`)
	f := &Facts{ScaledJob: emails(t), Now: now, Jobs: []*batchv1.Job{job}}
	g.Expect(workersEnd(f)).To(ConsistOf(HaveField("Message", ContainSubstring("1 Jobs have run for more than an hour"))))
	f.ScaledJob.Spec.MinReplicas = 1
	g.Expect(workersEnd(f)).To(BeEmpty(), "they are to wait")
	f.ScaledJob.Spec.MinReplicas, f.ScaledJob.Status.QueueDepth = 0, new(int64(1))
	g.Expect(workersEnd(f)).To(BeEmpty(), "there are messages")
	f.ScaledJob.Status.QueueDepth = new(int64(0))
	job.Spec.ActiveDeadlineSeconds = new(int64(9000))
	g.Expect(workersEnd(f)).To(BeEmpty(), "they will end")
}

func TestKeysThatAreShared(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	own, other := emails(t), emails(t)
	other.Namespace, other.Name = "shop", "mails"
	f := &Facts{Namespace: "mail", ScaledJob: own, Others: []scaledjobv1.ScaledJob{*other}}
	g.Expect(sharedKeys(f)).To(ConsistOf(HaveField("Message", `The messages of "emails" also count for shop/mails, so each of them gets several Jobs.`)))
	own.Spec.RedisAddress, f.Others[0].Spec.RedisAddress = "redis:6379", "redis:6379"
	g.Expect(sharedKeys(f)).To(BeEmpty(), "a short name is another server in another namespace")
	f.Others[0].Namespace = "mail"
	g.Expect(sharedKeys(f)).To(HaveLen(1))
	f.Others[0].Spec.QueueName = "others"
	g.Expect(sharedKeys(f)).To(BeEmpty())
}

func TestReferencesOfATemplate(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := emails(t)
	sj.Spec.JobTemplate = parse[scaledjobv1.ScaledJob](t, `
spec:
  jobTemplate:
    metadata: {labels: {kueue.x-k8s.io/queue-name: gpu}}
    spec:
      template:
        spec:
          imagePullSecrets: [{name: pull}]
          containers:
          - name: worker
            env:
            - {name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}
            - {name: B, valueFrom: {secretKeyRef: {name: optional, key: k, optional: true}}}
            - {name: C, valueFrom: {configMapKeyRef: {name: c, key: k}}}
            envFrom: [{secretRef: {name: all}}, {configMapRef: {name: all}}]
          volumes:
          - {name: v, secret: {secretName: s, items: [{key: k, path: p}, {key: l, path: q}]}}
          - {name: w, persistentVolumeClaim: {claimName: data}}
          - {name: x, projected: {sources: [{configMap: {name: projected}}]}}
`).Spec.JobTemplate
	sj.Spec.RedisAddress, sj.Spec.Redis = "", &scaledjobv1.Redis{
		Auth: &scaledjobv1.RedisAuth{PasswordSecretRef: &scaledjobv1.SecretKeyReference{Name: "redis"}},
		TLS:  &scaledjobv1.RedisTLS{CASecretRef: &scaledjobv1.SecretKeyReference{Name: "authority", Key: "ca"}},
	}
	var found []string
	f := &Facts{References: ReferencesOf(sj)}
	for _, each := range f.References {
		found = append(found, each.Kind+" "+each.Name+" "+each.Key)
	}
	g.Expect(found).To(HaveExactElements(
		"LocalQueue gpu ", "ServiceAccount default ", "Secret pull ", "Secret s k", "ConfigMap c k", "Secret all ", "ConfigMap all ", "Secret s l",
		"PersistentVolumeClaim data ", "ConfigMap projected ", "Secret redis password", "Secret authority ca",
	))
	g.Expect(f.RedisSecrets()).To(Equal([]string{"redis", "authority"}))
}

func TestCommandsOfTheQueues(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := parse[scaledjobv1.ScaledJob](t, `
spec:
  redis: {addresses: ["a:1"], database: 2}
  threshold: 1
  queues:
  - {name: list}
  - {name: set, type: Set}
  - {name: stream, type: Stream, stream: {consumerGroup: workers}}
  - {name: due, type: SortedSet, sortedSet: {window: Due}}
`)
	grants := map[string][]string{}
	target := TargetOf(sj)
	for _, key := range target.Keys {
		for _, command := range key.Commands {
			grants[key.Name] = append(grants[key.Name], command.Grant)
		}
		g.Expect(key.Together).To(BeTrue())
	}
	g.Expect(grants).To(Equal(map[string][]string{
		"list": {"+llen"}, "set": {"+scard"}, "stream": {"+xlen", "+xrange", "+xinfo|groups", "+xpending"}, "due": {"+zcard", "+zcount", "+zrange"},
	}))
	g.Expect(target.Channels).To(HaveExactElements("__keyspace@2__:list", "__keyspace@2__:set", "__keyspace@2__:stream", "__keyspace@2__:due"))
	g.Expect(flagsFor(sj.Spec.AllQueues())).To(Equal("Kglstz"))
	sj.Spec.Notifications = scaledjobv1.NotificationsTracking
	g.Expect(TargetOf(sj)).To(And(HaveField("Channels", BeEmpty()), HaveField("Tracking", BeTrue())))
}

func TestFlagsOfNotifications(t *testing.T) {
	t.Parallel()
	for value, enough := range map[string]bool{"Klg": true, "KA": true, "AKE": true, "A": false, "Kl": false, "": false} {
		NewWithT(t).Expect(notifying(value, "Kgl")).To(Equal(enough), value)
	}
}

func TestNodesThatAnnounceTheirLoopback(t *testing.T) {
	t.Parallel()
	f := &Facts{Target: &redis.Target{}, Redis: &redis.Facts{
		Server:  &redis.Server{Address: "redis.mail.svc:6379"},
		Cluster: &redis.Cluster{Covered: new(16384), Nodes: []redis.Server{{Address: "127.0.0.1:6379"}, {Address: "10.0.0.1:6379", Failed: redis.Connect}}},
	}}
	NewWithT(t).Expect(redisCluster(f)).To(HaveExactElements(
		And(HaveField("Level", Error), HaveField("Message", ContainSubstring("127.0.0.1:6379"))),
		And(HaveField("Level", Unchecked), HaveField("Message", ContainSubstring("10.0.0.1:6379"))),
	))
}

func TestSentinelsThatAreTooFew(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	f := &Facts{Target: &redis.Target{MasterName: "jobs"}, Redis: &redis.Facts{Sentinels: []redis.Sentinel{
		{Server: redis.Server{Address: "a:1", Mode: "sentinel"}, Master: "m:1", Sentinels: 1, Quorum: 2},
		{Server: redis.Server{Address: "b:1", Mode: "sentinel"}, Master: "n:1", Sentinels: 3, Quorum: 2, Down: true},
		{Server: redis.Server{Address: "c:1", Failed: redis.Lookup, Err: &failure.Error{}}},
	}}}
	g.Expect(redisSentinels(f)).To(HaveExactElements(
		HaveField("Message", ContainSubstring("knows 1 sentinels, and 2 have to agree")), HaveField("Message", ContainSubstring("b:1 does not reach the master n:1")),
		HaveField("Level", Unchecked), HaveField("Message", "The sentinels name different masters: m:1, n:1."),
	))
}

func TestCuresForAnswers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	f := &Facts{Pod: DryRun{Err: errors.New("pods is forbidden: exceeded quota: full")}}
	g.Expect(podAccepted(f)).To(ConsistOf(HaveField("Level", Warning)))
	f.Pod.Err = errors.New("something else")
	g.Expect(podAccepted(f)).To(ConsistOf(And(HaveField("Level", Error), HaveField("Fix", "Correct spec.jobTemplate, or what the answer names."))))
}

func TestTheReport(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	f := &Facts{
		Namespace: "mail", ScaledJob: emails(t), Now: now, CRD: CRD{Served: true},
		Operators: []Operator{{Namespace: "ops", Name: "manager", Wanted: 2, Ready: 1}},
		Missing:   map[Need]string{NeedPods: "You may not list Pods."},
		Pods:      []*corev1.Pod{},
	}
	is := Examine(f)
	g.Expect(is.Found()).To(BeTrue())
	g.Expect(is.Checks).To(ContainElements(
		And(HaveField("ID", "pods"), HaveField("Level", Unchecked)), And(HaveField("ID", "operator"), HaveField("Level", Warning)),
	))
	g.Expect(is.Text(60, false)).To(ContainSubstring("\x1b[33m!\x1b[m"))
	g.Expect(ansi.Strip(is.Text(60, false))).To(And(
		HavePrefix("Installation\n  ✓ The CRD is installed.\n"),
		ContainSubstring("  ! Of the operator ops/manager, 1 of 2 replicas are ready.\n    Fix: See why: kubectl describe pods --namespace=ops\n    --selector="),
		ContainSubstring("\nScaledJob mail/emails\n  ✓ The operator reports no problem.\n"), ContainSubstring("  – You may not list Pods.\n"),
		HaveSuffix("\nErrors: 0. Warnings: 1. Not checked: 2.\n"),
	))
	g.Expect(is.Text(100, true)).To(ContainSubstring("\n  warning   Of the operator"))
	f.Operators[0].Ready, f.Missing = 2, nil
	is = Examine(f)
	g.Expect(is.Found()).To(BeFalse())
	g.Expect(is.Text(100, true)).To(HaveSuffix("\nNothing is wrong.\n"))
}
