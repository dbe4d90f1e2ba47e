// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

// machinery is a control plane of a test's own, on which nothing is installed.
type machinery struct {
	*WithT
	t       *testing.T
	control *cluster.Cluster
	admin   client.Client
}

func newMachinery(t *testing.T) *machinery {
	t.Helper()
	m := &machinery{WithT: NewWithT(t), t: t, control: cluster.New(t, cluster.Options{})}
	var err error
	m.admin, err = operator.NewClient(m.control.Config())
	m.Expect(err).NotTo(HaveOccurred())
	return m
}

func (m *machinery) kubectl(args ...string) string {
	m.t.Helper()
	output, err := m.control.Kubectl(m.t.Context(), args...)
	m.Expect(err).NotTo(HaveOccurred())
	return output
}

// bundle writes a kustomization as one file and returns its path.
func (m *machinery) bundle(name string) string {
	m.t.Helper()
	manifest, err := render.Manifest(m.t.Context(), name)
	m.Expect(err).NotTo(HaveOccurred())
	return write(m.t, manifest)
}

func (m *machinery) helm(args ...string) (string, error) {
	return render.Helm(m.t.Context(), "", append(args, "--kubeconfig="+m.control.Kubeconfig())...)
}

// createScaledJob creates a ScaledJob in the namespace of the operator, where it is in most danger.
func (m *machinery) createScaledJob() {
	m.t.Helper()
	scaledJob := &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: user},
		Spec:       scaledjobv1.ScaledJobSpec{QueueName: user, RedisAddress: "redis:6379", Threshold: 1},
	}
	scaledJob.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "worker", Image: "none"}}
	// The kind is served a moment after its CRD is stored.
	m.Eventually(m.admin.Create).WithArguments(m.t.Context(), scaledJob).Should(Succeed())
}

// expectOnlyTheOperatorGone expects that nothing of the operator is left other than its CRD and Namespace, and that
// the ScaledJob is.
func (m *machinery) expectOnlyTheOperatorGone() {
	m.t.Helper()
	err := m.admin.Get(m.t.Context(), client.ObjectKey{Namespace: operator.Namespace, Name: operator.ServiceAccount}, &appsv1.Deployment{})
	m.Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	m.Expect(m.kubectl("get", "clusterroles,clusterrolebindings", "--selector=app.kubernetes.io/name=scaledjob-operator", "-o=name")).To(BeEmpty())
	var namespace corev1.Namespace
	m.Expect(m.admin.Get(m.t.Context(), client.ObjectKey{Name: operator.Namespace}, &namespace)).To(Succeed())
	m.Expect(namespace.DeletionTimestamp).To(BeNil())
	var scaledJob scaledjobv1.ScaledJob
	m.Expect(m.admin.Get(m.t.Context(), client.ObjectKey{Namespace: operator.Namespace, Name: user}, &scaledJob)).To(Succeed())
	m.Expect(scaledJob.DeletionTimestamp).To(BeNil())
}

func TestRemovingTheOperatorByItsLabelLeavesScaledJobs(t *testing.T) {
	t.Parallel()
	m := newMachinery(t)
	crd, operator := m.bundle("crd"), m.bundle("default")
	m.kubectl("apply", "--filename="+crd)
	m.kubectl("apply", "--filename="+operator)
	m.createScaledJob()
	m.kubectl("delete", "--wait=false", "--filename="+operator, "--selector=app.kubernetes.io/name=scaledjob-operator")
	m.expectOnlyTheOperatorGone()
	m.kubectl("apply", "--filename="+operator)
}

func TestHelmUpgradesAndUninstalls(t *testing.T) {
	t.Parallel()
	m := newMachinery(t)
	chart, err := render.Chart(t.Context())
	m.Expect(err).NotTo(HaveOccurred())
	image, err := render.Image(t.Context())
	m.Expect(err).NotTo(HaveOccurred())
	image = "--values=" + image
	const release, namespace = "scaledjob-operator", "--namespace=" + operator.Namespace
	m.kubectl("apply", "--filename="+m.bundle("crd"))

	_, err = m.helm("install", release, chart, namespace, image, "--create-namespace")
	m.Expect(err).To(MatchError(ContainSubstring("invalid ownership metadata")), "the CRD is kubectl's")
	notes, err := m.helm("install", release, chart, namespace, image, "--create-namespace", "--take-ownership")
	m.Expect(err).NotTo(HaveOccurred())
	m.Expect(notes).To(And(
		ContainSubstring("kubectl -n scaledjob-operator-system rollout status deployment/scaledjob-operator-manager"),
		ContainSubstring("keeps the CRD, all ScaledJobs and all Jobs")))
	m.createScaledJob()

	_, err = m.helm("upgrade", release, chart, namespace, image, "--set=crds.enabled=false")
	m.Expect(err).NotTo(HaveOccurred())
	_, err = m.helm("upgrade", release, chart, namespace, image, "--set=replicas=3", "--set=logging.level=debug")
	m.Expect(err).NotTo(HaveOccurred())
	var deployment appsv1.Deployment
	m.Expect(m.admin.Get(t.Context(), client.ObjectKey{Namespace: operator.Namespace, Name: operator.ServiceAccount}, &deployment)).To(Succeed())
	m.Expect(*deployment.Spec.Replicas).To(BeEquivalentTo(3))

	_, err = m.helm("uninstall", release, namespace)
	m.Expect(err).NotTo(HaveOccurred())
	m.expectOnlyTheOperatorGone()
	_, err = m.helm("install", release, chart, namespace, image)
	m.Expect(err).NotTo(HaveOccurred(), "the release finds its CRD again")
}
