// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobwatch

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestAllJobsCountsWhatIsGoneToo(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	first, second, stray := job("first"), job("second"), job("stray")
	first.Namespace, second.Namespace, stray.Namespace = "team", "team", "team"
	first.OwnerReferences[0].Name, second.OwnerReferences[0].Name, stray.OwnerReferences = "emails", "orders", nil
	clients := fake.NewClientset(first)
	all := must.Get(WatchAll(clients))(g)
	api := clients.BatchV1().Jobs("team")
	must.Get(api.Create(t.Context(), second, metav1.CreateOptions{}))(g)
	must.Get(api.Create(t.Context(), stray, metav1.CreateOptions{}))(g)
	g.Eventually(all.EverIn).WithArguments("team").WithTimeout(syncTimeout).Should(Equal(3))

	g.Expect(api.Delete(t.Context(), "first", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(all.In).WithArguments("team").WithTimeout(syncTimeout).Should(ConsistOf(HaveField("Name", "second"), HaveField("Name", "stray")))
	g.Expect(all.EverIn("team")).To(Equal(3))
	g.Expect(all.EverOf(types.NamespacedName{Namespace: "team", Name: "emails"})).To(Equal(1))
	g.Expect(all.EverOf(types.NamespacedName{Namespace: "team", Name: "others"})).To(BeZero())
	g.Expect(all.EverIn("other")).To(BeZero())
}
