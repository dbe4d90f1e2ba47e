// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/programs"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// Everything is applied in one command, and the operator is there before its CRD, and before its permissions.
func TestOperatorStartsBeforeItsCRD(t *testing.T) {
	t.Parallel()
	control := cluster.New(t, cluster.Options{})
	admin, err := operator.NewClient(control.Config())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	account := prepareAccount(t, control, admin)

	t.Run("it is told to stop meanwhile", func(t *testing.T) {
		g := NewWithT(t)
		early := startEarly(t, account)
		early.awaitWaiting(t)
		g.Expect(early.process.Signal(syscall.SIGTERM)).To(Succeed())
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		g.Expect(early.process.Wait(ctx)).To(Succeed(), "it exits with 0")
		g.Expect(early.log()).NotTo(ContainSubstring("the operator ends"))
	})

	t.Run("the CRD comes", func(t *testing.T) {
		g := NewWithT(t)
		redis := redistest.New(t, redistest.Options{})
		early := startEarly(t, account)
		early.awaitWaiting(t)
		g.Expect(operator.Install(t.Context(), control)).To(Succeed())
		early.awaitReady(t)
		createOne(t, admin, redis)
		g.Expect(redis.Client().RPush(t.Context(), "emails", "one").Err()).To(Succeed())
		g.Eventually(func() ([]batchv1.Job, error) {
			var jobs batchv1.JobList
			err := admin.List(t.Context(), &jobs, client.InNamespace(metav1.NamespaceDefault))
			return jobs.Items, err
		}).Should(HaveLen(1))
		g.Expect(strings.Count(early.log(), "waiting for their CRD")).To(Equal(1))
		g.Expect(early.process.Signal(syscall.SIGTERM)).To(Succeed())
		g.Expect(early.process.Wait(t.Context())).To(Succeed())
	})
}

// prepareAccount makes the operator's ServiceAccount, without any permissions yet, and returns the path of a kubeconfig for
// it.
func prepareAccount(t *testing.T, control *cluster.Cluster, admin client.Client) (path string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operator.Namespace}})).To(Succeed())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: operator.ServiceAccount}}
	g.Expect(admin.Create(t.Context(), account)).To(Succeed())
	access, err := control.ServiceAccountConfig(t.Context(), account.Namespace, account.Name)
	g.Expect(err).NotTo(HaveOccurred())
	return writeKubeconfig(t, access)
}

// writeKubeconfig returns the path of a kubeconfig for a client that signs in with a token.
func writeKubeconfig(t *testing.T, access *rest.Config) (path string) {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: access.Host, CertificateAuthorityData: access.CAData}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: access.BearerToken}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	path = filepath.Join(t.TempDir(), "kubeconfig")
	NewWithT(t).Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
	return path
}

// createOne makes a ScaledJob of one Job to a message, which is not polled.
func createOne(t *testing.T, admin client.Client, redis *redistest.Server) {
	t.Helper()
	NewWithT(t).Expect(admin.Create(t.Context(), &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "worker"},
		Spec: scaledjobv1.ScaledJobSpec{
			QueueName:              "emails",
			RedisAddress:           redis.Addr(),
			Threshold:              1,
			PollingIntervalSeconds: 3600,
			JobTemplate: &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "none"}}},
			}}},
		},
	})).To(Succeed())
}

// earlyOperator is an operator that is not ready when it has started, which operator.Start would wait for.
type earlyOperator struct {
	process *sandbox.Process
	logPath string
	probes  string
}

func startEarly(t *testing.T, kubeconfig string, args ...string) *earlyOperator {
	t.Helper()
	g := NewWithT(t)
	path, err := programs.Operator(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	box, err := sandbox.New()
	g.Expect(err).NotTo(HaveOccurred())
	early := &earlyOperator{logPath: filepath.Join(box.Dir(), "early.log")}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the operator:\n%s", early.log())
		}
		if err := box.Close(); err != nil {
			t.Errorf("closing the sandbox: %v", err)
		}
	})
	port, err := box.Port()
	g.Expect(err).NotTo(HaveOccurred())
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	early.probes = "http://" + address
	args = append([]string{
		"--kubeconfig=" + kubeconfig, "--health-probe-bind-address=" + address, "--redis-allow-cidrs=127.0.0.0/8", noFallback,
	}, args...)
	early.process, err = box.Start("early", path, args...)
	g.Expect(err).NotTo(HaveOccurred())
	return early
}

func (e *earlyOperator) log() string {
	content, err := os.ReadFile(e.logPath)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

func (e *earlyOperator) awaitWaiting(t *testing.T) {
	t.Helper()
	NewWithT(t).Eventually(e.log).Should(ContainSubstring("waiting for their CRD"))
}

// awaitReady returns when the operator is ready.
func (e *earlyOperator) awaitReady(t *testing.T) {
	t.Helper()
	NewWithT(t).Eventually(operator.Get).WithArguments(t.Context(), e.probes+"/readyz").Should(Equal("ok"))
}
