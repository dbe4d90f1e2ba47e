// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	g.Expect(api.Create(t.Context(), object(g, at("metadata.name", "defaults")))).To(Succeed())

	var stored scaledjobv1.ScaledJob
	g.Expect(api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "defaults"}, &stored)).To(Succeed())

	g.Expect(stored.Spec.MinReplicas).To(Equal(int32(0)))
	g.Expect(stored.Spec.MaxReplicas).To(HaveValue(Equal(scaledjobv1.DefaultMaxReplicas)))
	g.Expect(stored.Spec.PollingIntervalSeconds).To(Equal(scaledjobv1.DefaultPollingIntervalSeconds))
	g.Expect(stored.Spec.Notifications).To(Equal(scaledjobv1.NotificationsEnabled))
	g.Expect(stored.Spec.SuccessfulJobsHistoryLimit).To(HaveValue(Equal(scaledjobv1.DefaultSuccessfulJobsHistoryLimit)))
	g.Expect(stored.Spec.FailedJobsHistoryLimit).To(HaveValue(Equal(scaledjobv1.DefaultFailedJobsHistoryLimit)))
	// And nothing else: what the API server fills in below the template is up to the Job.
	spec := object(g).Object["spec"].(map[string]any)
	maps.Copy(spec, map[string]any{
		"minReplicas": int64(0), "maxReplicas": int64(100), "pollingIntervalSeconds": int64(30), "notifications": "Enabled",
		"successfulJobsHistoryLimit": int64(100), "failedJobsHistoryLimit": int64(100), "queuesCalculation": "Sum",
	})
	raw := object(g, at("metadata.name", "defaults"))
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(raw), raw)).To(Succeed())
	g.Expect(raw.Object["spec"]).To(Equal(spec))
}

// A client that reads an object and writes it back must not make a default of what is 0.
func TestTypedUpdateKeepsZeros(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	zeros := many(
		"metadata.name", "zeros", "spec.maxReplicas", int64(0),
		"spec.successfulJobsHistoryLimit", int64(0), "spec.failedJobsHistoryLimit", int64(0),
		"spec.scalingStrategy", map[string]any{"type": "Custom", "claimGraceSeconds": int64(0), "custom": map[string]any{}},
	)
	g.Expect(api.Create(t.Context(), object(g, zeros...))).To(Succeed())
	var typed scaledjobv1.ScaledJob
	key := client.ObjectKey{Namespace: "default", Name: "zeros"}
	g.Expect(api.Get(t.Context(), key, &typed)).To(Succeed())

	typed.Labels = map[string]string{"edited": "yes"}
	g.Expect(api.Update(t.Context(), &typed)).To(Succeed())

	raw := object(g, zeros...)
	g.Expect(api.Get(t.Context(), key, raw)).To(Succeed())
	g.Expect(raw.GetLabels()).To(HaveKey("edited"))
	g.Expect(raw.Object["spec"]).To(And(
		HaveKeyWithValue("maxReplicas", int64(0)),
		HaveKeyWithValue("successfulJobsHistoryLimit", int64(0)),
		HaveKeyWithValue("failedJobsHistoryLimit", int64(0)),
		HaveKeyWithValue("scalingStrategy", zeros[len(zeros)-1].content),
	))
}

// labelled is a ScaledJob with labels and annotations at all places where a template may have them.
func labelled(g Gomega, name string) *unstructured.Unstructured {
	const claims = "spec.jobTemplate.spec.template.spec.volumes"
	claim := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"of": "claim"}},
		"spec":     map[string]any{"accessModes": []any{"ReadWriteOnce"}},
	}
	return object(g,
		at("metadata.name", name),
		at("spec.jobTemplate.metadata.labels", map[string]any{"of": "job"}),
		at("spec.jobTemplate.metadata.annotations", map[string]any{"note": "of the Job"}),
		at("spec.jobTemplate.spec.template.metadata.labels", map[string]any{"of": "pod"}),
		at("spec.jobTemplate.spec.template.metadata.annotations", map[string]any{"note": "of the Pod"}),
		at(claims, []any{map[string]any{"name": "scratch", "ephemeral": map[string]any{"volumeClaimTemplate": claim}}}),
	)
}

// Labels of the template are what network policies, cost reports and service meshes go by.
func TestTemplateMetadataSurvives(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	sent := labelled(g, "labelled")
	template := sent.DeepCopy().Object["spec"].(map[string]any)["jobTemplate"]
	g.Expect(api.Create(t.Context(), sent)).To(Succeed())

	stored := object(g)
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(sent), stored)).To(Succeed())
	g.Expect(stored.Object["spec"]).To(HaveKeyWithValue("jobTemplate", template))

	var typed scaledjobv1.ScaledJob
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(sent), &typed)).To(Succeed())
	g.Expect(typed.Spec.JobTemplate.Labels).To(Equal(map[string]string{"of": "job"}))
	g.Expect(typed.Spec.JobTemplate.Spec.Template.Annotations).To(Equal(map[string]string{"note": "of the Pod"}))
}

// maxReplicas is a limit, and not a number of replicas.
func TestAScaledJobCannotBeScaled(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	limited := object(g, at("metadata.name", "limited"), at("spec.maxReplicas", int64(7)))
	g.Expect(api.Create(t.Context(), limited)).To(Succeed())
	_, err := control.Kubectl(t.Context(), "scale", "scaledjobs.batch.miracle.dev/limited", "--replicas=0")
	g.Expect(err).To(MatchError(ContainSubstring("(NotFound)")))
	version := limited.GetResourceVersion()
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(limited), limited)).To(Succeed())
	g.Expect(limited.GetResourceVersion()).To(Equal(version))
}

// What "kubectl get -o yaml" saves can be applied again, although it has a resource version and a UID.
func TestASavedScaledJobIsRestored(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	saved := object(g, at("metadata.name", "saved"))
	g.Expect(api.Create(t.Context(), saved)).To(Succeed())
	manifest, err := control.Kubectl(t.Context(), "get", "scaledjobs.batch.miracle.dev", "--field-selector=metadata.name=saved", "-o", "yaml")
	g.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(t.TempDir(), "scaledjobs.yaml")
	g.Expect(os.WriteFile(file, []byte(manifest), 0o600)).To(Succeed())
	g.Expect(api.Delete(t.Context(), saved)).To(Succeed())

	g.Expect(control.Kubectl(t.Context(), "apply", "-f", file)).To(ContainSubstring("saved created"))
	restored := object(g)
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(saved), restored)).To(Succeed())
	g.Expect(restored.Object["spec"]).To(Equal(saved.Object["spec"]))
	g.Expect(restored.GetUID()).NotTo(Equal(saved.GetUID()))
}

// The status is written through its own door only, and does not count as an edit of the spec.
func TestStatusSubresource(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	sj := object(g, at("metadata.name", "status"), at("status.activeJobs", int64(7)))
	g.Expect(api.Create(t.Context(), sj)).To(Succeed())
	g.Expect(sj.Object).NotTo(HaveKey("status"))

	var typed scaledjobv1.ScaledJob
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(sj), &typed)).To(Succeed())
	typed.Spec.Threshold = 99
	typed.Status = scaledjobv1.ScaledJobStatus{
		ObservedGeneration: 1, QueueDepth: new(int64(0)), DesiredJobs: new(int32(0)), LastScaleTime: new(metav1.Now().Rfc3339Copy()),
		Queue: "emails, +2",
		Queues: []scaledjobv1.QueueStatus{
			{Name: "emails", Depth: new(int64(0))}, {Name: "unread", Window: scaledjobv1.WindowDue}, {Name: "read", ConsumerGroup: "workers"},
		},
		Conditions: []metav1.Condition{{
			Type: scaledjobv1.ConditionReady, Status: metav1.ConditionTrue, Reason: scaledjobv1.ReasonReconciled,
			LastTransitionTime: metav1.Now().Rfc3339Copy(),
		}},
	}
	want := typed.Status.DeepCopy()
	g.Expect(api.Status().Update(t.Context(), &typed)).To(Succeed())

	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(sj), &typed)).To(Succeed())
	g.Expect(typed.Spec.Threshold).To(Equal(int64(10)))
	g.Expect(typed.Generation).To(Equal(int64(1)))
	asJSON := func(status *scaledjobv1.ScaledJobStatus) string {
		encoded, err := json.Marshal(status)
		g.Expect(err).NotTo(HaveOccurred())
		return string(encoded)
	}
	g.Expect(asJSON(&typed.Status)).To(MatchJSON(asJSON(want)), "a depth of 0 is not an unknown depth")
}

// Clients decode a list as a whole: a single object that they can't decode keeps them from all the others. The API
// server itself stores the template without decoding it.
func TestWhatNoClientCanDecodeIsRefused(t *testing.T) {
	t.Parallel()
	const resources = "spec.jobTemplate.spec.template.spec.containers[0].resources.limits.cpu"
	const port = "spec.jobTemplate.spec.template.spec.containers[0].livenessProbe.httpGet.port"
	cpu := func(quantity any) value {
		return container("resources", map[string]any{"limits": map[string]any{"cpu": quantity}})
	}
	probe := func(port any) value {
		return container("livenessProbe", map[string]any{"httpGet": map[string]any{"port": port}})
	}
	const created, parallelism = "spec.jobTemplate.metadata.creationTimestamp", "spec.jobTemplate.spec.parallelism"
	for name, c := range map[string]struct {
		value value
		field string
	}{
		"fractional exponent":      {cpu("1e1.5"), resources},
		"exponent of many digits":  {cpu("1e99999999999999999999"), resources},
		"exponent that takes ages": {cpu("1e-99999999"), resources},
		"empty quantity":           {cpu(""), resources},
		"number of 33 bits":        {at(parallelism, int64(1)<<31), parallelism},
		"time without a zone":      {at(created, "2026-01-02T03:04:05"), created},
		"time in lower case":       {at(created, "2026-01-02t03:04:05z"), created},
		"port below 32 bits":       {probe(-int64(1)<<31 - 1), port},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			expectRefused(g, try(t.Context(), newClient(g), object(g, c.value)), c.field, c.field)
		})
	}
}

// The columns that kubectl get shows.
func TestColumns(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	sj := specified(g, queues("[{name: emails}, {name: urgent}]"))
	sj.SetName("columns")
	g.Expect(api.Create(t.Context(), sj)).To(Succeed())
	var typed scaledjobv1.ScaledJob
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(sj), &typed)).To(Succeed())
	typed.Status.Queues = []scaledjobv1.QueueStatus{{Name: "emails"}, {Name: "urgent", Depth: new(int64(3))}}
	g.Expect(api.Status().Update(t.Context(), &typed)).To(Succeed())
	config := control.Config()
	web, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	url := config.Host + "/apis/batch.miracle.dev/v1/namespaces/default/scaledjobs/columns"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	g.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")

	response, err := web.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(response.Body.Close()).To(Succeed()) }()
	var table metav1.Table
	g.Expect(json.NewDecoder(response.Body).Decode(&table)).To(Succeed())

	var always, wide []string
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			always = append(always, strings.ToUpper(column.Name))
		} else {
			wide = append(wide, strings.ToUpper(column.Name))
		}
	}
	g.Expect(always).To(Equal([]string{"NAME", "QUEUE", "DEPTH", "ACTIVE", "DESIRED", "MAX", "MODE", "READY", "AGE"}))
	g.Expect(wide).To(Equal([]string{"PENDING", "SUSPENDEDJOBS", "SUSPENDED", "LASTSCALE", "LIMITED", "REASON"}))
	g.Expect(table.Rows).To(HaveLen(1))
	g.Expect(table.Rows[0].Cells[:6]).To(HaveExactElements(
		"columns", nil, nil, BeNumerically("==", 0), nil, BeNumerically("==", 100),
	))
}
