// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// Everything is applied in one command, and the operator is there before its CRD, and before its permissions.
func TestOperatorStartsBeforeItsCRD(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	control := cluster.New(t, cluster.Options{})
	admin, err := operator.NewClient(control.Config())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operator.Namespace}})).To(Succeed())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: operator.ServiceAccount}}
	g.Expect(admin.Create(t.Context(), account)).To(Succeed())
	access, err := control.ServiceAccountConfig(t.Context(), account.Namespace, account.Name)
	g.Expect(err).NotTo(HaveOccurred())

	stopped := startEarly(t, access)
	g.Eventually(stopped.Logs).Should(ContainSubstring("waiting for their CRD"))
	expectEnd(t, stopped)

	early := startEarly(t, access)
	g.Eventually(early.Logs).Should(ContainSubstring("waiting for their CRD"))
	g.Expect(operator.Install(t.Context(), control)).To(Succeed())
	awaitReady(t, early)
	redis := redistest.New(t, redistest.Options{})
	s := &scene.ScaledJob{
		API: admin, Redis: redis.Client(), Address: redis.Addr(), Namespace: metav1.NamespaceDefault, Name: "worker", Queue: "emails",
	}
	g.Expect(s.Create(t.Context())).To(Succeed())
	g.Expect(s.Observe(t.Context(), control.Config(), s.Due)).To(Succeed())
	g.Expect(s.Push(t.Context(), 1)).To(Succeed())
	g.Eventually(s.Witness.Created).Should(Equal(1))
	g.Expect(strings.Count(early.Logs(), "waiting for their CRD")).To(Equal(1))
	expectEnd(t, early)
}

// startEarly starts an operator that can't be ready yet.
func startEarly(t *testing.T, access *rest.Config, args ...string) *operator.Operator {
	t.Helper()
	return operator.New(t, operator.Options{Config: access, Unready: true, Args: append([]string{noFallback}, args...)})
}

// awaitReady returns when the operator is ready.
func awaitReady(t *testing.T, early *operator.Operator) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	NewWithT(t).Expect(early.AwaitReady(ctx)).To(Succeed())
}

// expectEnd stops the operator, which exits with 0.
func expectEnd(t *testing.T, early *operator.Operator) {
	t.Helper()
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	g.Expect(early.Stop(ctx)).To(Succeed())
	g.Expect(early.Logs()).NotTo(ContainSubstring("the operator ends"))
}
