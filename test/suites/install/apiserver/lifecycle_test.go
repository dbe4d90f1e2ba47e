// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

// emptyCluster is a control plane of a test's own, on which nothing is installed.
type emptyCluster struct {
	*WithT
	t       *testing.T
	control *cluster.Cluster
	admin   client.Client
}

func newEmptyCluster(t *testing.T) *emptyCluster {
	t.Helper()
	c := &emptyCluster{WithT: NewWithT(t), t: t, control: cluster.New(t, cluster.Options{})}
	c.admin = must.Get(operator.NewClient(c.control.Config()))(c)
	return c
}

func (c *emptyCluster) kubectl(args ...string) string {
	c.t.Helper()
	return must.Get(c.control.Kubectl(c.t.Context(), args...))(c)
}

// bundle writes a kustomization as one file and returns its path.
func (c *emptyCluster) bundle(name string) string {
	c.t.Helper()
	manifest := must.Get(render.Manifest(c.t.Context(), name))(c)
	return write(c.t, manifest)
}

// createScaledJob creates a ScaledJob in the namespace of the operator, where it is in most danger.
func (c *emptyCluster) createScaledJob() {
	c.t.Helper()
	scaledJob := &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: user},
		Spec: scaledjobv1.ScaledJobSpec{
			QueueName: user, RedisAddress: "redis:6379", Threshold: 1, JobTemplate: &batchv1.JobTemplateSpec{},
		},
	}
	scaledJob.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "worker", Image: "none"}}
	// The kind is served a moment after its CRD is stored.
	c.Eventually(c.admin.Create).WithArguments(c.t.Context(), scaledJob).Should(Succeed())
}

// expectOnlyTheOperatorGone expects that nothing of the operator is left other than its CRD and Namespace, and that
// the ScaledJob is.
func (c *emptyCluster) expectOnlyTheOperatorGone() {
	c.t.Helper()
	err := c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: operator.Namespace, Name: operator.ServiceAccount}, &appsv1.Deployment{})
	c.Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	c.Expect(c.kubectl("get", "clusterroles,clusterrolebindings", "--selector=app.kubernetes.io/name=scaledjob-operator", "-o=name")).To(BeEmpty())
	var namespace corev1.Namespace
	c.Expect(c.admin.Get(c.t.Context(), client.ObjectKey{Name: operator.Namespace}, &namespace)).To(Succeed())
	c.Expect(namespace.DeletionTimestamp).To(BeNil())
	var scaledJob scaledjobv1.ScaledJob
	c.Expect(c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: operator.Namespace, Name: user}, &scaledJob)).To(Succeed())
	c.Expect(scaledJob.DeletionTimestamp).To(BeNil())
}

func TestRemovingTheOperatorByItsLabelLeavesScaledJobs(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	crd, operator := c.bundle("crd"), c.bundle("default")
	c.kubectl("apply", "--filename="+crd)
	c.kubectl("apply", "--filename="+operator)
	c.createScaledJob()
	c.kubectl("delete", "--wait=false", "--filename="+operator, "--selector=app.kubernetes.io/name=scaledjob-operator")
	c.expectOnlyTheOperatorGone()
	c.kubectl("apply", "--filename="+operator)
}

func TestHelmUpgradesAndUninstalls(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	release := render.Release{Name: "scaledjob-operator", Namespace: operator.Namespace}
	helm := func(command string, args ...string) (string, error) {
		return release.Helm(t.Context(), command, append(args, "--kubeconfig="+c.control.Kubeconfig())...)
	}
	c.kubectl("apply", "--filename="+c.bundle("crd"))

	_, err := helm("install", "--create-namespace")
	c.Expect(err).To(MatchError(ContainSubstring("invalid ownership metadata")), "the CRD is kubectl's")
	c.Expect(helm("install", "--create-namespace", "--take-ownership")).To(And(
		ContainSubstring("kubectl -n scaledjob-operator-system rollout status deployment/scaledjob-operator-manager"),
		ContainSubstring("keeps the CRD, all ScaledJobs and all Jobs")))
	c.createScaledJob()

	c.Expect(helm("upgrade", "--set=crds.enabled=false")).Error().NotTo(HaveOccurred())
	_, err = helm("upgrade", "--set=replicas=3", "--set=logging.level=debug")
	c.Expect(err).NotTo(HaveOccurred())
	var deployment appsv1.Deployment
	c.Expect(c.admin.Get(t.Context(), client.ObjectKey{Namespace: operator.Namespace, Name: operator.ServiceAccount}, &deployment)).To(Succeed())
	c.Expect(*deployment.Spec.Replicas).To(BeEquivalentTo(3))

	c.Expect(render.Helm(t.Context(), "", "uninstall", release.Name, "--namespace="+release.Namespace,
		"--kubeconfig="+c.control.Kubeconfig())).Error().NotTo(HaveOccurred())
	c.expectOnlyTheOperatorGone()
	_, err = helm("install")
	c.Expect(err).NotTo(HaveOccurred(), "the release finds its CRD again")
}
