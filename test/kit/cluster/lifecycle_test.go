// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestLifeOfACluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	own := cluster.New(t, cluster.Options{ControllerManager: true, FakeNode: true, CRDs: []string{"testdata/widgets.yaml"}})
	c := newClient(t, own.Config())
	widget := newWidget(metav1.NamespaceDefault)
	g.Expect(c.Create(t.Context(), widget)).To(Succeed())

	g.Expect(own.RestartAPIServer(t.Context())).To(Succeed())

	controlled := true
	job := newJob(metav1.NamespaceDefault, map[string]string{cluster.PodSucceedAfter: "0s"})
	job.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "cluster.test/v1", Kind: "Widget", Name: widget.GetName(), UID: widget.GetUID(), Controller: &controlled,
	}}
	g.Expect(c.Create(t.Context(), job)).To(Succeed())
	g.Eventually(conditions(t, c, job)).WithTimeout(timeout).Should(ContainElement(batchv1.JobComplete))

	g.Expect(c.Delete(t.Context(), widget)).To(Succeed())
	g.Eventually(func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(job), job))
	}).WithTimeout(timeout).Should(BeTrue())

	dir := filepath.Dir(own.Kubeconfig())
	g.Expect(processesIn(g, dir)).To(HaveLen(3))
	g.Expect(own.Stop()).To(Succeed())
	g.Expect(processesIn(g, dir)).To(BeEmpty())
	g.Expect(dir).NotTo(BeADirectory())
	g.Expect(own.Stop()).To(Succeed())
}

func TestLagHoldsBackAWatch(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := control.NewNamespace(t, "test")
	lag := cluster.NewLag("configmaps")
	config := control.Config()
	config.Wrap(lag.Wrap)
	c := must.Get(client.NewWithWatch(config, client.Options{}))(g)
	lagged := startWatch(t, c, &corev1.ConfigMapList{}, namespace)
	prompt := startWatch(t, c, &corev1.SecretList{}, namespace)

	lag.Set(timeout * 1000)
	for _, name := range []string{"one", "two", "three"} {
		object := metav1.ObjectMeta{Namespace: namespace, Name: name}
		g.Expect(c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: object})).To(Succeed())
		g.Expect(c.Create(t.Context(), &corev1.Secret{ObjectMeta: object})).To(Succeed())
		g.Expect(nextName(t, prompt)).To(Equal(name))
	}
	g.Expect(lagged).NotTo(Receive())

	lag.Set(0)
	for _, name := range []string{"one", "two", "three"} {
		g.Expect(nextName(t, lagged)).To(Equal(name))
	}
}

// startWatch returns the events of what is created in a namespace from now on.
func startWatch(t *testing.T, c client.WithWatch, list client.ObjectList, namespace string) <-chan watch.Event {
	t.Helper()
	g := NewWithT(t)
	g.Expect(c.List(t.Context(), list, client.InNamespace(namespace))).To(Succeed())
	from := &client.ListOptions{Namespace: namespace, Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	watcher := must.Get(c.Watch(t.Context(), list, from))(g)
	t.Cleanup(watcher.Stop)
	return watcher.ResultChan()
}

// nextName returns the name of the object in the next event. The events of
// objects Kubernetes puts into each namespace are passed over.
func nextName(t *testing.T, events <-chan watch.Event) string {
	t.Helper()
	g := NewWithT(t)
	for {
		var event watch.Event
		g.Eventually(events).WithTimeout(timeout).Should(Receive(&event))
		object, ok := event.Object.(client.Object)
		g.Expect(ok).To(BeTrue(), "%v", event.Object)
		if object.GetName() != "kube-root-ca.crt" {
			return object.GetName()
		}
	}
}

// processesIn returns the command lines of the processes working in a folder.
func processesIn(g Gomega, dir string) []string {
	links := must.Get(filepath.Glob("/proc/[0-9]*/cwd"))(g)
	var found []string
	for _, link := range links {
		cwd, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(cwd, dir) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		found = append(found, string(command))
	}
	return found
}

func newWidget(namespace string) *unstructured.Unstructured {
	widget := &unstructured.Unstructured{}
	widget.SetAPIVersion("cluster.test/v1")
	widget.SetKind("Widget")
	widget.SetNamespace(namespace)
	widget.SetName("widget")
	return widget
}
