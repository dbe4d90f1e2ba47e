// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli tests kubectl scaledjob on a real API server, with users who may do more or less. The operator runs in
// the namespaces of some tests. In the others, the tests write the statuses that it would write.
package cli

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/keda"
	"miracle.dev/scaledjob-operator/test/kit/operator"
)

var (
	control *cluster.Cluster
	admin   client.WithWatch
)

func TestMain(m *testing.M) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	os.Exit(cluster.Run(m, 0, start, stop))
}

func start(ctx context.Context) (err error) {
	crds, err := keda.CRDs(ctx)
	if err != nil {
		return err
	}
	// The controller-manager aggregates roles, and creates Pods.
	control, admin, err = operator.StartCluster(ctx, cluster.Options{ControllerManager: true, CRDs: []string{crds}, Log: os.Stderr})
	return err
}

func stop(context.Context) error { return control.Stop() }

// answer is what a command has printed, and its exit code.
type answer struct {
	out, errOut string
	code        int
}

// run runs a command as the administrator, unless the arguments say otherwise.
func run(t *testing.T, args ...string) answer {
	t.Helper()
	return runUntil(t.Context(), args...)
}

// runUntil runs a command until it ends, or the context does.
func runUntil(ctx context.Context, args ...string) answer {
	var out, errOut bytes.Buffer
	code := cli.Run(ctx, cli.Options{
		Args: append([]string{"--kubeconfig=" + control.Kubeconfig()}, args...),
		In:   strings.NewReader(""), Out: &out, ErrOut: &errOut, Version: "test",
	})
	return answer{out.String(), errOut.String(), code}
}

// newScaledJob creates a ScaledJob with further fields of its spec and this status, both in YAML.
func newScaledJob(t *testing.T, namespace, name, spec, status string) *scaledjobv1.ScaledJob {
	t.Helper()
	g := NewWithT(t)
	sj := &scaledjobv1.ScaledJob{}
	g.Expect(yaml.UnmarshalStrict([]byte(`
metadata: {namespace: `+namespace+`, name: `+name+`, labels: {team: `+name+`}}
spec:
  queueName: `+name+`
  redisAddress: redis.example.svc:6379
  threshold: 10
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: worker, image: worker}]}}}}
`), sj)).To(Succeed())
	g.Expect(yaml.UnmarshalStrict([]byte(spec), &sj.Spec)).To(Succeed())
	g.Expect(admin.Create(t.Context(), sj)).To(Succeed())
	g.Expect(yaml.UnmarshalStrict([]byte(status), &sj.Status)).To(Succeed())
	sj.Status.ObservedGeneration = sj.Generation
	g.Expect(admin.Status().Update(t.Context(), sj)).To(Succeed())
	return sj
}

// newEmails creates the ScaledJob emails, with further fields of its spec, in a namespace of its own, which it returns.
func newEmails(t *testing.T, spec string) (namespace string) {
	t.Helper()
	namespace = control.NewNamespace(t, "cli")
	newScaledJob(t, namespace, "emails", spec, healthy)
	return namespace
}

// newUser lets somebody have a role in a namespace, and returns the flag with which a command runs as that user.
func newUser(t *testing.T, namespace, role string) string {
	t.Helper()
	name := role + "-of-" + namespace
	NewWithT(t).Expect(admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	})).To(Succeed())
	return "--as=" + name
}

// healthy is the status of a ScaledJob that works.
const healthy = `
queueDepth: 47
queue: emails
queues: [{name: emails, depth: 47}]
activeJobs: 5
pendingJobs: 2
desiredJobs: 5
succeededJobs: 12
failedJobs: 1
mode: Tracking
conditions:
- {type: Ready, status: "True", reason: Reconciled, message: It works., lastTransitionTime: "2026-03-01T12:00:00Z"}
- {type: ScalingLimited, status: "False", reason: NotLimited, message: No Job is held back., lastTransitionTime: "2026-03-01T12:00:00Z"}
`
