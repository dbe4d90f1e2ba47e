// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/doctor"
	"miracle.dev/scaledjob-operator/test/kit/operator"
)

// examined is the report for programs.
func examined(t *testing.T, g Gomega, args ...string) doctor.Report {
	t.Helper()
	is := run(t, append([]string{"doctor", "-o", "json"}, args...)...)
	g.Expect(is.errOut).To(BeEmpty())
	var report doctor.Report
	g.Expect(json.Unmarshal([]byte(is.out), &report)).To(Succeed())
	wanted := 0
	if report.Found() {
		wanted = 3
	}
	g.Expect(is.code).To(Equal(wanted))
	return report
}

// findings are what a report has found, by the checks.
func findings(report doctor.Report) map[string]string {
	all := map[string]string{}
	for _, each := range report.Checks {
		for _, is := range each.Findings {
			if is.Level == doctor.Warning || is.Level == doctor.Error {
				all[each.ID] += string(is.Level) + ": " + is.Message + " FIX: " + is.Fix + "\n"
			}
		}
	}
	return all
}

// patient is a set-up in which a test plants a fault.
type patient struct {
	t          *testing.T
	g          *WithT
	namespace  string
	name       string
	deployment *appsv1.Deployment
	lease      *coordinationv1.Lease
	scaledJob  *scaledjobv1.ScaledJob
}

// newPatient makes a healthy set-up whose operator is for its namespace alone. spec has further fields, in YAML.
func newPatient(t *testing.T, spec string) *patient {
	t.Helper()
	p := &patient{t: t, g: NewWithT(t), namespace: control.NewNamespace(t, "cli"), name: "emails"}
	p.deployment = p.install("doctor-" + p.namespace)
	p.lease = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: p.namespace},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("manager-1"), LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: time.Now().Add(time.Minute)},
		},
	}
	p.create(p.lease)
	if !strings.Contains(spec, "redis") {
		spec = strings.Replace(spec, "{", "{redisAddress: "+p.address()+", ", 1)
	}
	p.scaledJob = newScaledJob(t, p.namespace, p.name, spec, healthy)
	p.g.Eventually(func() error {
		return admin.Get(t.Context(), client.ObjectKey{Namespace: p.namespace, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(Succeed())
	return p
}

// address is that of a server that the tests of other namespaces do not name.
func (p *patient) address() string { return "redis." + p.namespace + ".svc:6379" }

// create creates an object, and deletes it after the test.
func (p *patient) create(object client.Object) {
	p.t.Helper()
	p.g.Expect(admin.Create(p.t.Context(), object)).To(Succeed())
	p.t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(p.t.Context()), object) })
}

// install creates a Deployment of an operator for the namespace, with two ready replicas as if they ran.
func (p *patient) install(name string) *appsv1.Deployment {
	p.t.Helper()
	is := &appsv1.Deployment{}
	p.g.Expect(yaml.UnmarshalStrict([]byte(`
metadata: {namespace: `+operator.Namespace+`, name: `+name+`, labels: {app.kubernetes.io/name: scaledjob-operator}}
spec:
  replicas: 2
  selector: {matchLabels: {name: `+name+`}}
  template:
    metadata: {labels: {name: `+name+`}}
    spec:
      serviceAccountName: `+operator.ServiceAccount+`
      containers:
      - name: manager
        image: scaledjob-operator:v1.0.0
        args: [--leader-elect, --leader-election-id=`+p.namespace+`, --watch-namespaces=`+p.namespace+`]
`), is)).To(Succeed())
	p.create(is)
	is.Status.Replicas, is.Status.ReadyReplicas = 2, 2
	p.g.Expect(admin.Status().Update(p.t.Context(), is)).To(Succeed())
	return is
}

// pod creates a Pod of the ScaledJob in this status, in YAML.
func (p *patient) pod(status string) {
	p.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.namespace, Name: "emails-1", Labels: map[string]string{scaledjobv1.LabelScaledJob: p.name},
	}}
	pod.Spec = p.scaledJob.Spec.JobTemplate.Spec.Template.Spec
	p.g.Expect(admin.Create(p.t.Context(), pod)).To(Succeed())
	p.g.Expect(yaml.UnmarshalStrict([]byte(status), &pod.Status)).To(Succeed())
	p.g.Expect(admin.Status().Update(p.t.Context(), pod)).To(Succeed())
}

// report writes a status of the ScaledJob, in YAML.
func (p *patient) report(status string) {
	p.t.Helper()
	p.g.Expect(yaml.UnmarshalStrict([]byte(status), &p.scaledJob.Status)).To(Succeed())
	p.g.Expect(admin.Status().Update(p.t.Context(), p.scaledJob)).To(Succeed())
}

// expectFound waits until doctor has found this, by the checks, and nothing else.
func (p *patient) expectFound(wanted map[string]string, args ...string) {
	p.t.Helper()
	p.g.Eventually(func(g Gomega) {
		found := findings(examined(p.t, g, append([]string{p.name, "-n", p.namespace}, args...)...))
		g.Expect(slices.Sorted(maps.Keys(found))).To(Equal(slices.Sorted(maps.Keys(wanted))), "%v", found)
		for id, says := range wanted {
			g.Expect(found[id]).To(MatchRegexp(says))
		}
	}).Should(Succeed())
}

// fault is something that is wrong.
type fault struct {
	// spec has fields of the ScaledJob, and plant makes the rest of the fault.
	spec  string
	plant func(*patient)
	// found are the checks that have to find it, and what they say. No other check may find anything.
	found map[string]string
}

const withEnv = `{jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: worker, image: worker, env: [%s]}]}}}}}`

// faults are planted one at a time.
var faults = map[string]fault{
	"no operator for the namespace": {
		plant: func(p *patient) { p.g.Expect(admin.Delete(p.t.Context(), p.deployment)).To(Succeed()) },
		found: map[string]string{"operator": "error: "},
	},
	"no replica is ready": {
		plant: func(p *patient) {
			p.deployment.Status.ReadyReplicas = 0
			p.g.Expect(admin.Status().Update(p.t.Context(), p.deployment)).To(Succeed())
		},
		found: map[string]string{"operator": "error: .*0 of 2 replicas are ready.*FIX: See why: kubectl describe pods"},
	},
	"nobody is the leader": {
		plant: func(p *patient) { p.g.Expect(admin.Delete(p.t.Context(), p.lease)).To(Succeed()) },
		found: map[string]string{"leader": "error: Nobody holds the Lease"},
	},
	"the leader is gone": {
		plant: func(p *patient) {
			p.lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-time.Hour)}
			p.g.Expect(admin.Update(p.t.Context(), p.lease)).To(Succeed())
		},
		found: map[string]string{"leader": "error: .*was last renewed at"},
	},
	"two operators": {
		plant: func(p *patient) { p.install("second-" + p.namespace) },
		found: map[string]string{"one-operator": "error: .*second-"},
	},
	"the operator lacks permissions": {
		plant: func(p *patient) {
			p.deployment.Spec.Template.Spec.ServiceAccountName = "default"
			p.g.Expect(admin.Update(p.t.Context(), p.deployment)).To(Succeed())
		},
		found: map[string]string{"operator-rights": "error: The operator may not: create jobs.batch, .*patch scaledjobs/status.batch.miracle.dev"},
	},
	"the operator reports an error": {
		plant: func(p *patient) {
			p.report(`conditions: [{type: Ready, status: "False", reason: AuthFailed, message: Redis rejected the credentials., lastTransitionTime: "2026-03-01T12:00:00Z"}]`)
		},
		found: map[string]string{"conditions": "error: Ready is False .AuthFailed.: Redis rejected.*FIX: docs/operations/troubleshooting.md#authfailed"},
	},
	"it is suspended": {
		spec:  `{suspend: true}`,
		found: map[string]string{"conditions": "warning: spec.suspend is true.*FIX: kubectl scaledjob resume emails"},
	},
	"the template is not valid": {
		spec:  `{jobTemplate: {spec: {backoffLimit: -1}}}`,
		found: map[string]string{"job": "error: The API server rejects Jobs of this template: .*backoffLimit"},
	},
	"PodSecurity": {
		plant: func(p *patient) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
			p.g.Expect(admin.Patch(p.t.Context(), namespace, client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted","pod-security.kubernetes.io/warn":"restricted"}}}`)))).To(Succeed())
		},
		found: map[string]string{
			"job": "warning: The API server warns about the Job: would violate PodSecurity .*FIX: Set in the securityContext",
			"pod": "error: .*violates PodSecurity .*FIX: Set in the securityContext",
		},
	},
	"no ServiceAccount": {
		spec: `{jobTemplate: {spec: {template: {spec: {serviceAccountName: mailer}}}}}`,
		found: map[string]string{
			"references": `error: There is no ServiceAccount "mailer"`,
			"pod":        `error: .*service account .*FIX: Create the ServiceAccount`,
		},
	},
	"no Secret": {
		spec:  strings.ReplaceAll(withEnv, "%s", `{name: A, valueFrom: {secretKeyRef: {name: smtp, key: password}}}`),
		found: map[string]string{"references": `error: There is no Secret "smtp" in the namespace; container worker names it`},
	},
	"no key in the ConfigMap": {
		spec: strings.ReplaceAll(withEnv, "%s", `{name: A, valueFrom: {configMapKeyRef: {name: settings, key: port}}}`),
		plant: func(p *patient) {
			p.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "settings"}, Data: map[string]string{"host": "x"}})
		},
		found: map[string]string{"references": `error: The ConfigMap "settings" has no key "port"`},
	},
	"a LocalQueue without Kueue": {
		spec:  `{jobTemplate: {metadata: {labels: {kueue.x-k8s.io/queue-name: gpu}}}}`,
		found: map[string]string{"references": `warning: The cluster has no kind LocalQueue`},
	},
	"a quota without room": {
		plant: func(p *patient) {
			p.create(&corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "full"},
				Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
			})
		},
		found: map[string]string{"quota": "warning: ResourceQuota full: 0 of 0 pods are used", "pod": "warning: A quota leaves no room"},
	},
	"an image that can't be pulled": {
		plant: func(p *patient) {
			p.pod(`containerStatuses: [{name: worker, image: worker:0, state: {waiting: {reason: ImagePullBackOff, message: no such image}}}]`)
		},
		found: map[string]string{"pods": "error: .*ImagePullBackOff, container worker with image worker:0: no such image FIX: Check the name"},
	},
	"a sidecar that does not end": {
		plant: func(p *patient) {
			p.pod(`
phase: Running
containerStatuses:
- {name: worker, state: {terminated: {exitCode: 0, finishedAt: "2026-03-01T12:00:00Z"}}}
- {name: proxy, state: {running: {startedAt: "2026-03-01T12:00:00Z"}}}`)
		},
		found: map[string]string{"workers-end": "error: .*worker has ended, and proxy goes on"},
	},
	"two ScaledJobs on one key": {
		plant: func(p *patient) {
			other := newScaledJob(p.t, p.namespace, "images", "{queueName: emails, redisAddress: "+p.address()+"}", healthy)
			p.g.Expect(other.Name).To(Equal("images"))
		},
		found: map[string]string{"shared-key": `warning: The messages of "emails" also count for .*/images, so`},
	},
	"KEDA scales by the key": {
		plant: func(p *patient) {
			p.g.Expect(control.Apply(p.t.Context(), strings.NewReader(`
apiVersion: keda.sh/v1alpha1
kind: ScaledJob
metadata: {namespace: `+p.namespace+`, name: old}
spec:
  jobTargetRef: {template: {spec: {containers: [{name: worker, image: worker}]}}}
  triggers: [{type: redis, metadata: {address: "redis.example.svc:6379", listName: emails, listLength: "2"}}]
`))).To(Succeed())
		},
		found: map[string]string{"keda": `warning: The ScaledJob old of KEDA .*FIX: .*autoscaling.keda.sh/paused=true`},
	},
}

// Each planted fault is found by the checks that are for it, and no check finds another one.
func TestDoctorFindsEachFault(t *testing.T) {
	t.Parallel()
	for name, is := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t, cmp.Or(is.spec, "{}"))
			if is.plant != nil {
				is.plant(p)
			}
			p.expectFound(is.found)
		})
	}
}

func TestDoctorFindsNothingInAHealthySetUp(t *testing.T) {
	t.Parallel()
	p := newPatient(t, "{}")
	report := examined(t, p.g, p.name, "-n", p.namespace)
	p.g.Expect(findings(report)).To(BeEmpty())
	is := run(t, "doctor", p.name, "-n", p.namespace)
	p.g.Expect(is.code).To(BeZero())
	p.g.Expect(is.out).To(And(
		HavePrefix("Installation\n  ok        The CRD is installed.\n"), ContainSubstring("\nScaledJob "+p.namespace+"/emails\n"),
		ContainSubstring("\nNothing is wrong"),
	))
	p.g.Expect(findings(examined(t, p.g, "-n", p.namespace))).To(BeEmpty())
}

// Who may see only ScaledJobs gets the checks that need no more, and what was not checked is said.
func TestDoctorSaysWhatMayNotBeSeen(t *testing.T) {
	t.Parallel()
	p := newPatient(t, "{}")
	viewer := newUser(t, p.namespace, "scaledjob-operator-scaledjob-viewer")
	p.g.Eventually(func(g Gomega) {
		report := examined(t, g, p.name, "-n", p.namespace, viewer)
		g.Expect(findings(report)).To(BeEmpty())
		levels := map[string]doctor.Level{}
		for _, each := range report.Checks {
			levels[each.ID] = each.Level
		}
		g.Expect(levels).To(And(
			HaveKeyWithValue("conditions", doctor.OK), HaveKeyWithValue("operator", doctor.Unchecked), HaveKeyWithValue("job", doctor.Unchecked),
			HaveKeyWithValue("pod", doctor.Unchecked), HaveKeyWithValue("pods", doctor.Unchecked), HaveKeyWithValue("references", doctor.Unchecked),
		))
	}).Should(Succeed())
	is := run(t, "doctor", p.name, "-n", p.namespace, viewer)
	p.g.Expect(is.out).To(ContainSubstring("unchecked You may not list Deployments in all namespaces."))
}
