// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/rand"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

// The operator works in the namespaces that the values name, as the ServiceAccount of the release, which has no
// permission anywhere else and none in the cluster.
func TestRoleOnlyIsEnoughToWork(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	// Not the name of the other releases, which are checked against what is there.
	release := render.Release{Name: "working", Namespace: render.Namespace, Values: render.RoleOnly}
	objects := must.Get(release.Objects(t.Context()))(g)
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			g.Expect(admin.Create(t.Context(), object)).To(Succeed(), object.GetName())
		}
	}
	running := startAsInstalled(t, release)

	redis := redistest.New(t, redistest.Options{})
	password := rand.Text()
	g.Expect(redis.Client().Do(t.Context(), "ACL", "SETUSER", user, "on", ">"+password, "~*", "&*", "+@all").Err()).To(Succeed())
	for _, namespace := range render.Watched {
		createScaledJob(t, namespace, redis.Addr(), password)
		g.Eventually(isReady).WithArguments(t, namespace).Should(BeTrue())
		g.Expect(redis.Client().RPush(t.Context(), namespace, "one").Err()).To(Succeed())
		g.Eventually(func() ([]batchv1.Job, error) {
			var jobs batchv1.JobList
			err := admin.List(t.Context(), &jobs, client.InNamespace(namespace))
			return jobs.Items, err
		}).Should(HaveLen(1))
	}
	g.Expect(strings.ToLower(running.Logs())).NotTo(ContainSubstring("forbidden"))
}

// Kubernetes lets nobody grant what they may not do themselves. So the administrator of a few namespaces needs two
// verbs more to install the operator there, and nothing in the cluster.
func TestTheAdministratorOfNamespacesInstallsRoleOnly(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const lead = "lead"
	mine, others := control.NewNamespace(t, "mine"), control.NewNamespace(t, "others")
	for _, namespace := range []string{mine, others} {
		grant(t, "--namespace="+namespace, "create", "rolebinding", lead, "--clusterrole=admin", "--user="+lead)
	}
	values := "{crds: {enabled: false}, watchNamespaces: [" + others + "]}"
	release := render.Release{Name: "led", Namespace: mine, Values: values}
	path := write(t, must.Get(release.Manifest(t.Context()))(g))
	apply := func() error {
		_, err := control.Kubectl(t.Context(), "apply", "--server-side", "--dry-run=server", "--as="+lead, "--filename="+path)
		return err
	}
	g.Eventually(apply).Should(MatchError(ContainSubstring("attempting to grant RBAC permissions not currently held")))

	for _, namespace := range []string{mine, others} {
		grant(t, "--namespace="+namespace, "create", "role", "grant-roles", "--verb=escalate,bind", "--resource=roles.rbac.authorization.k8s.io")
		grant(t, "--namespace="+namespace, "create", "rolebinding", "grant-roles", "--role=grant-roles", "--user="+lead)
	}
	g.Eventually(apply).Should(Succeed())
	g.Expect(release.Helm(t.Context(), "install", "--kube-as-user="+lead, "--kubeconfig="+control.Kubeconfig())).
		Error().NotTo(HaveOccurred())
}

func grant(t *testing.T, args ...string) {
	t.Helper()
	NewWithT(t).Expect(control.Kubectl(t.Context(), args...)).Error().NotTo(HaveOccurred())
}

// user is the user of the Redis server, and the name of the ScaledJobs and Secrets.
const user = "tenant"

// createScaledJob creates a ScaledJob whose queue has the name of the namespace, and its Secret.
func createScaledJob(t *testing.T, namespace, address, password string) {
	t.Helper()
	g := NewWithT(t)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: user}
	g.Expect(admin.Create(t.Context(), &corev1.Secret{
		ObjectMeta: meta, StringData: map[string]string{scaledjobv1.DefaultPasswordKey: password},
	})).To(Succeed())
	g.Expect(admin.Create(t.Context(), &scaledjobv1.ScaledJob{
		ObjectMeta: meta,
		Spec: scaledjobv1.ScaledJobSpec{
			QueueName: namespace,
			Redis: &scaledjobv1.Redis{
				Addresses: []string{address},
				Auth:      &scaledjobv1.RedisAuth{Username: user, PasswordSecretRef: &scaledjobv1.SecretKeyReference{Name: user}},
				TLS:       &scaledjobv1.RedisTLS{Mode: scaledjobv1.RedisTLSDisabled},
			},
			Threshold: 1,
			JobTemplate: &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "none"}}},
			}}},
		},
	})).To(Succeed())
}

// isReady reports whether the ScaledJob of a namespace is ready.
func isReady(t *testing.T, namespace string) (bool, error) {
	t.Helper()
	var scaledJob scaledjobv1.ScaledJob
	err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: user}, &scaledJob)
	return apimeta.IsStatusConditionTrue(scaledJob.Status.Conditions, scaledjobv1.ConditionReady), err
}
