// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	kueuekit "miracle.dev/scaledjob-operator/test/kit/kueue"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

// workerCluster is a second control plane with Kueue, in which the Pods run.
type workerCluster struct {
	*cluster.Cluster

	api client.WithWatch
	// proxy is how the first control plane reaches it.
	proxy *tcpproxy.Proxy
	// kubeconfig is the path of a file for that.
	kubeconfig string
}

func newWorkerCluster(t *testing.T) *workerCluster {
	t.Helper()
	g := NewWithT(t)
	program := must.Get(kueuekit.Build(t.Context(), os.Stderr))(g)
	w := &workerCluster{Cluster: cluster.New(t, cluster.Options{ControllerManager: true, FakeNode: true, Log: os.Stderr})}
	w.api = must.Get(operator.NewClient(w.Config()))(g)
	admits := must.Get(program.Install(t.Context(), w.Cluster))(g)
	t.Cleanup(func() { g.Expect(admits.Stop(context.WithoutCancel(t.Context()))).To(Succeed()) })
	g.Expect(admits.Start(t.Context())).To(Succeed())

	through := w.Config()
	w.proxy = tcpproxy.New(t, through.Host[len("https://"):])
	through.Host = "https://" + w.proxy.Addr()
	w.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(cluster.WriteKubeconfig(through, w.kubeconfig)).To(Succeed())
	return w
}

// A worker cluster that is lost for a while keeps its Jobs, and so does the ScaledJob.
func TestJobsRunInAWorkerClusterThatIsLostAndBack(t *testing.T) {
	skip.UnderShort(t, "needs a second control plane; for the operator, these Jobs differ from others by managedBy only")
	t.Parallel()
	const messages = 12
	s := newStage(t)
	worker := newWorkerCluster(t)
	s.dispatch(worker)
	s.create()
	s.Push(messages)
	s.expectWorking(quotaOf)
	s.Eventually(s.Status).Should(HaveField("PendingJobs", BeEquivalentTo(messages-quotaOf)), s.explain)

	s.Expect(worker.proxy.Refuse()).To(Succeed())
	worker.proxy.Reset()
	s.expectWorkers(metav1.ConditionFalse)
	s.finish(2)
	s.Eventually(s.counted).Should(HaveField("Served", 2), s.explain)
	s.Push(1)
	s.expectJobs(messages) // Here, no Job has ended.
	s.Expect(worker.proxy.Pass()).To(Succeed())
	s.expectWorkers(metav1.ConditionTrue)
	s.finishAll()
	s.Eventually(func() counts {
		s.touchWorkloads()
		return s.counted()
	}).WithPolling(touchInterval).Should(HaveField("Served", messages+1), s.explain)
	s.expectDone(messages + 1)
}

// touchInterval is how often Kueue is to look at each Workload.
const touchInterval = 5 * time.Second

// touchWorkloads has Kueue look at each Workload. When it reaches a worker cluster again, it may miss what happens
// there in the first moments.
func (s *stage) touchWorkloads() {
	s.t.Helper()
	touch := fmt.Appendf(nil, `{"metadata":{"annotations":{"test.batch.miracle.dev/touched":%q}}}`, time.Now().String())
	for _, each := range s.workloads() {
		s.Expect(client.IgnoreNotFound(s.API.Patch(s.t.Context(), &each, client.RawPatch(types.MergePatchType, touch)))).To(Succeed())
	}
}

// dispatch has the Jobs of the namespace run in a worker cluster.
func (s *stage) dispatch(to *workerCluster) {
	s.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	s.Expect(to.api.Create(s.t.Context(), namespace)).To(Succeed())
	here := s.control
	s.control = to.Cluster
	s.quota(quotaOf)
	s.control = here
	s.apply(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: %[1]s}
spec: {clusterSource: {kubeConfig: {location: %[2]s, locationType: Path}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueConfig
metadata: {name: %[1]s}
spec: {clusters: [%[1]s]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: %[1]s}
spec:
  controllerName: kueue.x-k8s.io/multikueue
  parameters: {apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: %[1]s}
`, s.Namespace, to.kubeconfig)
	checks := fmt.Sprintf("admissionChecksStrategy: {admissionChecks: [{name: %s}]}", s.Namespace)
	s.covers(corev1.ResourceCPU, 100, "namespaceSelector: {}, "+checks)
	s.expectWorkers(metav1.ConditionTrue)
	s.awaitActive("ClusterQueue", metav1.ConditionTrue)
	s.api = to.api
}

// expectWorkers waits until Kueue says whether it reaches the worker cluster.
func (s *stage) expectWorkers(reached metav1.ConditionStatus) {
	s.t.Helper()
	s.awaitActive("MultiKueueCluster", reached)
}

// awaitActive waits for the condition Active of the object of this kind that the test has to itself.
func (s *stage) awaitActive(kind string, status metav1.ConditionStatus) {
	s.t.Helper()
	s.Eventually(func() (any, error) {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: kind})
		err := s.API.Get(s.t.Context(), client.ObjectKey{Name: s.Namespace}, object)
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		return conditions, err
	}).Should(ContainElement(And(HaveKeyWithValue("type", "Active"), HaveKeyWithValue("status", string(status)))))
}
