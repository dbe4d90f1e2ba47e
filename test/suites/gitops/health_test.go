// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// health is what the tools make of a ScaledJob in a certain state.
type health struct {
	argoCD string
	// message is a part of what Argo CD says.
	message string
	// kstatus is what Flux makes of it without expressions, and flux with those of docs/how-to/gitops.md.
	kstatus, flux string
}

var states = map[string]health{
	"healthy":        {"Healthy", "by the depth of the queue", "Current", "Current"},
	"stalled":        {"Degraded", "Secret", "Failed", "Failed"},
	"reconciling":    {"Progressing", "refused", "InProgress", "InProgress"},
	"suspended":      {"Suspended", "suspend", "Current", "Current"},
	"without-status": {"Progressing", "not seen", "Current", "InProgress"},
	"old-generation": {"Progressing", "not seen", "InProgress", "InProgress"},
	"being-deleted":  {"Progressing", "Pending deletion", "Terminating", "InProgress"},
}

// expectHealth expects the health of each object that its state should have.
func expectHealth(t *testing.T, objects map[string]*unstructured.Unstructured) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(objects).To(HaveLen(len(states)))
	names := slices.Sorted(maps.Keys(states))
	asked := question{Expressions: documentedExpressions(g)}
	for _, name := range names {
		asked.Objects = append(asked.Objects, pair{Live: objects[name]})
	}
	answers := must.Get(ask(t.Context(), asked))(g)
	for i, name := range names {
		want, got := states[name], answers[i]
		g.Expect(health{got.ArgoCD, want.message, got.Kstatus, got.Flux}).To(Equal(want), name)
		g.Expect(got.Message).To(ContainSubstring(want.message), name)
	}
}

// documentedExpressions are those that the document tells users of Flux to write.
func documentedExpressions(g Gomega) expressions {
	content := must.Get(os.ReadFile(root + "/docs/how-to/gitops.md"))(g)
	var found []expressions
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(content), -1) {
		var kustomization struct {
			Spec struct {
				HealthCheckExprs []expressions `json:"healthCheckExprs"`
			} `json:"spec"`
		}
		g.Expect(yaml.Unmarshal([]byte(block[1]), &kustomization)).To(Succeed())
		found = append(found, kustomization.Spec.HealthCheckExprs...)
	}
	g.Expect(found).To(HaveLen(1))
	return found[0]
}

func TestHealthOfAnOperatorsObjects(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	redis := redistest.New(t, redistest.Options{Events: "Kgl"})
	namespace := control.NewNamespace(t, "health")
	running := operator.New(t, operator.Options{Cluster: control, Args: []string{"--watch-namespaces=" + namespace}, Log: os.Stderr})
	create := func(name string, change sjtest.Change) *sjtest.ScaledJob {
		sj := &sjtest.ScaledJob{
			API: api, Redis: redis.Client(), Address: redis.Addr(), Operator: running, Namespace: namespace, Name: name, Queue: name,
		}
		g.Expect(sj.Create(t.Context(), change)).To(Succeed())
		return sj
	}
	none := func(*scaledjobv1.ScaledJobSpec) {}
	secret := func(spec *scaledjobv1.ScaledJobSpec) {
		spec.Redis = &scaledjobv1.Redis{
			Addresses: []string{spec.RedisAddress}, Auth: &scaledjobv1.RedisAuth{PasswordSecretRef: &scaledjobv1.SecretKeyReference{Name: "missing"}},
			TLS: &scaledjobv1.RedisTLS{Mode: scaledjobv1.RedisTLSDisabled},
		}
		spec.RedisAddress = ""
	}
	all := map[string]*sjtest.ScaledJob{
		"healthy": create("healthy", none), "stalled": create("stalled", secret),
		"reconciling":    create("reconciling", sjtest.At("127.0.0.1:1")),
		"suspended":      create("suspended", func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = true }),
		"old-generation": create("old-generation", none), "being-deleted": create("being-deleted", none),
	}
	for name, sj := range all {
		settled := map[string]string{"stalled": scaledjobv1.ConditionStalled, "reconciling": scaledjobv1.ConditionReconciling}[name]
		if settled == "" {
			settled = scaledjobv1.ConditionReady
		}
		g.Eventually(func() bool {
			found, err := sj.Get(t.Context())
			return err == nil && apimeta.IsStatusConditionTrue(found.Status.Conditions, settled)
		}).Should(BeTrue(), name)
	}
	g.Expect(running.Stop(t.Context())).To(Succeed())
	all["without-status"] = create("without-status", none)
	g.Expect(all["old-generation"].Update(t.Context(), sjtest.AtMost(7))).To(Succeed())
	deleteSlowly(t, all["being-deleted"])

	objects := map[string]*unstructured.Unstructured{}
	for name, sj := range all {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(scaledjobv1.GroupVersion.WithKind("ScaledJob"))
		g.Expect(api.Get(t.Context(), sj.Key(), live)).To(Succeed())
		objects[name] = live
	}
	expectHealth(t, objects)
}

// deleteSlowly deletes a ScaledJob, which a finalizer keeps until the end of the test.
func deleteSlowly(t *testing.T, sj *sjtest.ScaledJob) {
	t.Helper()
	g := NewWithT(t)
	finalizer := func(ctx context.Context, change func(client.Object, string) bool) error {
		found, err := sj.Get(ctx)
		if err != nil {
			return err
		}
		before := found.DeepCopy()
		change(found, "example.com/hold")
		return api.Patch(ctx, found, client.MergeFrom(before))
	}
	g.Expect(finalizer(t.Context(), controllerutil.AddFinalizer)).To(Succeed())
	t.Cleanup(func() {
		g.Expect(finalizer(context.WithoutCancel(t.Context()), controllerutil.RemoveFinalizer)).To(Succeed())
	})
	g.Expect(sj.Delete(t.Context(), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
}
