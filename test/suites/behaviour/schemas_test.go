// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/preflight"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// illKinds are values of a kind that the schema refuses today, by the path that
// they stand under. No value means that the path is missing.
var illKinds = map[string]struct {
	path  []string
	value any
}{
	"threshold-in-words":    {[]string{"spec", "threshold"}, "ten"},
	"maximum-beyond-int32":  {[]string{"spec", "maxReplicas"}, int64(3_000_000_000)},
	"interval-in-fractions": {[]string{"spec", "pollingIntervalSeconds"}, 1.5},
	"queue-in-digits":       {[]string{"spec", "queueName"}, int64(5)},
	"template-in-words":     {[]string{"spec", "jobTemplate"}, "worker"},
	"spec-in-words":         {[]string{"spec"}, "worker"},
	"no-spec":               {[]string{"spec"}, nil},
	"quantity-in-words": {
		[]string{"spec", "jobTemplate", "spec", "template", "spec", "overhead"}, map[string]any{"cpu": "much"},
	},
}

// illValues are of the right kind, but such as the schema refuses today.
var illValues = map[string]struct {
	path  []string
	value any
}{
	"history-negative":       {[]string{"spec", "successfulJobsHistoryLimit"}, int64(-5)},
	"failed-negative":        {[]string{"spec", "failedJobsHistoryLimit"}, int64(-2147483648)},
	"interval-negative":      {[]string{"spec", "pollingIntervalSeconds"}, int64(-5)},
	"interval-huge":          {[]string{"spec", "pollingIntervalSeconds"}, int64(2147483647)},
	"threshold-zero":         {[]string{"spec", "threshold"}, int64(0)},
	"threshold-minus":        {[]string{"spec", "threshold"}, int64(-9223372036854775808)},
	"activation-minus":       {[]string{"spec", "activationThreshold"}, int64(-3)},
	"minimum-negative":       {[]string{"spec", "minReplicas"}, int64(-3)},
	"maximum-negative":       {[]string{"spec", "maxReplicas"}, int64(-3)},
	"queue-empty":            {[]string{"spec", "queueName"}, ""},
	"queue-long":             {[]string{"spec", "queueName"}, strings.Repeat("q", 500_000)},
	"address-empty":          {[]string{"spec", "redisAddress"}, ""},
	"address-odd":            {[]string{"spec", "redisAddress"}, "redis://[::1:99999/7?x=\n"},
	"address-long":           {[]string{"spec", "redisAddress"}, strings.Repeat("h", 500_000) + ":1"},
	"notifications":          {[]string{"spec", "notifications"}, "Sometimes"},
	"queue-binary":           {[]string{"spec", "queueName"}, "a\x00b\r\nFLUSHALL\r\n"},
	"template-null":          {[]string{"spec", "jobTemplate"}, map[string]any{}},
	strings.Repeat("n", 253): {[]string{"spec", "threshold"}, int64(1)},
}

// illQueues are specs of queues and strategies such as the schema refuses today.
var illQueues = map[string]map[string]any{
	"type-unknown":     {"queues": []any{map[string]any{"name": "messages", "type": "Heap"}}},
	"role-unknown":     {"queues": []any{map[string]any{"name": "messages", "role": "Lost"}}},
	"name-empty":       {"queues": []any{map[string]any{"name": ""}}},
	"name-missing":     {"queues": []any{map[string]any{"type": "List"}}},
	"queues-empty":     {"queues": []any{}},
	"queue-minus":      {"queues": []any{map[string]any{"name": "messages", "threshold": int64(-7)}}},
	"threshold-least":  {"queues": []any{map[string]any{"name": "messages", "threshold": int64(-9223372036854775808)}}},
	"window-unknown":   {"queues": []any{map[string]any{"name": "sorted", "type": "SortedSet", "sortedSet": map[string]any{"window": "Soon", "scoreUnit": "years"}}}},
	"window-on-list":   {"queues": []any{map[string]any{"name": "messages", "type": "List", "sortedSet": map[string]any{"window": "Due"}}}},
	"stream-on-list":   {"queues": []any{map[string]any{"name": "messages", "type": "List", "stream": map[string]any{"consumerGroup": "a\x00\r\n"}}}},
	"role-on-stream":   {"queues": []any{map[string]any{"name": "none", "type": "Stream", "role": "InProgress"}}},
	"all-in-progress":  {"queues": []any{map[string]any{"name": "messages", "role": "InProgress"}}},
	"same-twice":       {"queues": []any{map[string]any{"name": "messages"}, map[string]any{"name": "messages"}}},
	"both-types":       {"queues": []any{map[string]any{"name": "messages"}, map[string]any{"name": "messages", "type": "Stream"}}},
	"in-progress-min":  {"queuesCalculation": "Min", "queues": []any{map[string]any{"name": "messages"}, map[string]any{"name": "x", "role": "InProgress"}}},
	"calculation":      {"queuesCalculation": "Median"},
	"strategy-unknown": {"scalingStrategy": map[string]any{"type": "Wild"}},
	"custom-missing":   {"scalingStrategy": map[string]any{"type": "Custom"}},
	"percentage-500":   {"scalingStrategy": map[string]any{"type": "Custom", "custom": map[string]any{"runningJobPercentage": int64(500), "queueLengthDeduction": int64(-9223372036854775808)}}},
	"percentage-minus": {"scalingStrategy": map[string]any{"type": "Custom", "custom": map[string]any{"runningJobPercentage": int64(-500), "queueLengthDeduction": int64(9223372036854775807)}}},
	"grace-minus":      {"scalingStrategy": map[string]any{"type": "Accurate", "claimGraceSeconds": int64(-1)}},
	"grace-huge":       {"scalingStrategy": map[string]any{"type": "Accurate", "claimGraceSeconds": int64(2147483647)}},
	"rollout-unknown":  {"rollout": map[string]any{"strategy": "Big", "propagationPolicy": "Orphan"}},
	"minimum-custom":   {"minReplicas": int64(-2147483648), "scalingStrategy": map[string]any{"type": "Custom", "custom": map[string]any{"queueLengthDeduction": int64(9223372036854775807)}}},
	"many":             {"queues": manyQueues()},
}

// manyQueues are far more than the schema allows.
func manyQueues() []any {
	many := make([]any, 200)
	for i := range many {
		many[i] = map[string]any{"name": "messages", "type": "List", "threshold": int64(i + 1)}
	}
	return many
}

// Whoever comes from an earlier schema may have ScaledJobs in store that no client can decode, or that ask for what
// makes no sense. The former get no Job, and are reported. Neither harms others, whether it is there from the start or
// turns up later.
func TestObjectsOfAnOlderSchemaHarmNoOther(t *testing.T) {
	t.Parallel()
	s := newOlderCluster(t)
	s.create("healthy")
	s.createIll()
	// A status may be of another kind, too.
	s.Expect(s.admin.Status().Patch(t.Context(), olderObject("threshold-in-words"),
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":"none"}}`)))).To(Succeed())
	s.installSchema()
	s.startOperator()
	s.expectJobs("healthy", 3)
	for name := range illKinds {
		s.Eventually(s.reported).WithContext(t.Context()).WithArguments(name).Should(BeTrue(), name)
	}
	for _, name := range []string{"history-negative", "failed-negative", "threshold-zero", "threshold-minus", "minimum-negative"} {
		s.Eventually(s.active).WithContext(t.Context()).WithArguments(name).Should(Equal(int64(3)), name)
	}
	s.awaitReconciles(slices.Collect(maps.Keys(illQueues))...)
	for name := range illQueues {
		desired, _, err := unstructured.NestedInt64(s.object(name).Object, "status", "desiredJobs")
		s.Expect(err).NotTo(HaveOccurred(), name)
		s.Expect(desired).To(BeNumerically(">=", 0), name)
	}
	for name := range illKinds {
		s.Expect(s.jobsOf(name)).To(BeEmpty(), name)
	}
	s.set("threshold-in-words", "/spec/threshold", int64(1))
	s.expectJobs("threshold-in-words", 3)
	s.Eventually(s.active).WithContext(t.Context()).WithArguments("threshold-in-words").Should(Equal(int64(3)))

	s.installAnySchema() // as one who rolls back does
	s.create("late", func(object map[string]any) {
		s.Expect(unstructured.SetNestedField(object, "ten", "spec", "threshold")).To(Succeed())
	})
	s.Eventually(s.reported).WithContext(t.Context()).WithArguments("late").Should(BeTrue())
	s.create("healthy-too")
	s.expectJobs("healthy-too", 3)
	s.awaitReconciles("healthy-too")

	s.set("late", "/spec/threshold", int64(1))
	s.expectJobs("late", 3)
	s.Expect(s.operator.Logs()).NotTo(ContainSubstring("Observed a panic"))
}

// createIll creates all ScaledJobs that make no sense.
func (s *olderCluster) createIll() {
	s.t.Helper()
	for name, ill := range illKinds {
		s.create(name, func(object map[string]any) {
			unstructured.RemoveNestedField(object, ill.path...)
			if ill.value != nil {
				s.Expect(unstructured.SetNestedField(object, ill.value, ill.path...)).To(Succeed())
			}
		})
	}
	for name, ill := range illValues {
		s.create(name, func(object map[string]any) {
			s.Expect(unstructured.SetNestedField(object, ill.value, ill.path...)).To(Succeed())
		})
	}
	for name, ill := range illQueues {
		s.create(name, func(object map[string]any) {
			spec := object["spec"].(map[string]any)
			maps.Copy(spec, ill)
			if _, has := ill["queues"]; has {
				delete(spec, "queueName")
			}
		})
	}
}

// olderCluster is a control plane of its own, at first with a schema that takes
// anything, and a queue of three messages.
type olderCluster struct {
	*WithT
	t        *testing.T
	control  *cluster.Cluster
	admin    client.Client
	redis    *redistest.Server
	operator *operator.Operator
}

func newOlderCluster(t *testing.T) *olderCluster {
	t.Helper()
	s := &olderCluster{
		WithT: NewWithT(t), t: t,
		control: cluster.New(t, cluster.Options{}), redis: redistest.New(t, redistest.Options{}),
	}
	s.installAnySchema()
	s.admin = must.Get(client.New(s.control.Config(), client.Options{}))(s)
	s.Expect(s.redis.Client().LPush(t.Context(), "messages", 1, 2, 3).Err()).To(Succeed())
	return s
}

// crds is the folder of the generated CRD.
const crds = "../../../config/crd/bases"

// installAnySchema installs the CRD without what is known of the fields.
func (s *olderCluster) installAnySchema() {
	s.t.Helper()
	s.install(func(schema *apiextensionsv1.CustomResourceValidation) {
		schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	})
}

// install installs the CRD of this version with a change to its schema.
func (s *olderCluster) install(change func(*apiextensionsv1.CustomResourceValidation)) {
	s.t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(crds, "*.yaml")))(s)
	s.Expect(files).To(HaveLen(1))
	var crd apiextensionsv1.CustomResourceDefinition
	s.Expect(yaml.Unmarshal(must.Get(os.ReadFile(files[0]))(s), &crd)).To(Succeed())
	change(crd.Spec.Versions[0].Schema)
	manifest := must.Get(yaml.Marshal(crd))(s)
	s.Expect(s.control.Apply(s.t.Context(), bytes.NewReader(manifest))).To(Succeed())
}

// installSchema installs the CRD as it is today.
func (s *olderCluster) installSchema() {
	s.t.Helper()
	s.Expect(operator.Install(s.t.Context(), s.control)).To(Succeed())
}

// startOperator starts an operator for the cluster.
func (s *olderCluster) startOperator() {
	s.t.Helper()
	s.operator = operator.New(s.t, operator.Options{Cluster: s.control, Args: []string{noFallback}})
}

// create makes a ScaledJob that wants a Job for each of the messages, unless
// changes say otherwise. A schema that was just installed may not apply yet.
func (s *olderCluster) create(name string, changes ...func(object map[string]any)) {
	s.t.Helper()
	container := map[string]any{"name": "worker", "image": "none"}
	podSpec := map[string]any{"containers": []any{container}}
	object := olderObject(name)
	object.Object["spec"] = map[string]any{
		"queueName": "messages", "redisAddress": s.redis.Addr(), "threshold": int64(1), "pollingIntervalSeconds": int64(1),
		"jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": podSpec}}},
	}
	for _, change := range changes {
		change(object.Object)
	}
	s.Eventually(func() error { return s.admin.Create(s.t.Context(), object.DeepCopy()) }).WithTimeout(timeout).Should(Succeed(), name)
}

func olderObject(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(scaledjobv1.GroupVersion.WithKind("ScaledJob"))
	object.SetNamespace(metav1.NamespaceDefault)
	object.SetName(name)
	return object
}

// set changes a field of the ScaledJob.
func (s *olderCluster) set(name, pointer string, value int64) {
	s.t.Helper()
	patch := fmt.Appendf(nil, `[{"op":"replace","path":%q,"value":%d}]`, pointer, value)
	s.Expect(s.admin.Patch(s.t.Context(), olderObject(name), client.RawPatch(types.JSONPatchType, patch))).To(Succeed())
}

// jobsOf are the Jobs of a ScaledJob, or all if there is no name.
func (s *olderCluster) jobsOf(name string) []batchv1.Job {
	s.t.Helper()
	var jobs batchv1.JobList
	options := []client.ListOption{client.InNamespace(metav1.NamespaceDefault)}
	if name != "" {
		options = append(options, client.MatchingLabels{scaledjobv1.LabelScaledJob: name})
	}
	s.Expect(s.admin.List(s.t.Context(), &jobs, options...)).To(Succeed())
	return jobs.Items
}

func (s *olderCluster) expectJobs(name string, count int) {
	s.t.Helper()
	s.Eventually(s.jobsOf).WithArguments(name).Should(HaveLen(count), name)
}

// reported says whether the operator reports what is wrong with a ScaledJob: by its condition, or else in the log.
func (s *olderCluster) reported(ctx context.Context, name string) (bool, error) {
	object := olderObject(name)
	if err := s.admin.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return false, err
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		values, _ := condition.(map[string]any)
		if values["type"] == scaledjobv1.ConditionReady && values["status"] == string(metav1.ConditionFalse) {
			return true, nil
		}
	}
	return strings.Contains(s.operator.Logs(), fmt.Sprintf("%q", name)), nil
}

// awaitReconciles returns after three more reconciles of each of the ScaledJobs.
func (s *olderCluster) awaitReconciles(names ...string) {
	s.t.Helper()
	reconciles := func() (all []float64) {
		metrics := must.Get(s.operator.Metrics(s.t.Context()))(s)
		for _, name := range names {
			all = append(all, metrics.Sum("scaledjob_reconcile_total", fmt.Sprintf("scaledjob=%q", name)))
		}
		return all
	}
	before := reconciles()
	s.Eventually(func(g Gomega) {
		for i, now := range reconciles() {
			g.Expect(now).To(BeNumerically(">=", before[i]+3), names[i])
		}
	}).Should(Succeed())
}

// active is what the status says of the active Jobs, nil where it says nothing.
func (s *olderCluster) active(ctx context.Context, name string) (any, error) {
	object := olderObject(name)
	err := s.admin.Get(ctx, client.ObjectKeyFromObject(object), object)
	active, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "activeJobs")
	return active, err
}

func (s *olderCluster) object(name string) *unstructured.Unstructured {
	s.t.Helper()
	object := olderObject(name)
	s.Expect(s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object
}

// The operator is upgraded before the CRD, and waits. Later the operator is rolled back, and the CRD is not: what the
// operator does not know, it does not do.
func TestOperatorAndCRDOfDifferentVersions(t *testing.T) {
	t.Parallel()
	s := newOlderCluster(t)
	s.installFields(func(spec *apiextensionsv1.JSONSchemaProps) { delete(spec.Properties, "suspend") })
	s.awaitFields(preflight.Fields{Missing: []string{"spec.suspend"}})
	upgraded := startEarly(t, s.control.Config())
	s.Eventually(upgraded.Logs).Should(And(
		ContainSubstring("older than this operator; waiting for that of this version"), ContainSubstring("spec.suspend")))
	s.create("worker")
	s.installFields(func(*apiextensionsv1.JSONSchemaProps) {})
	awaitReady(t, upgraded)
	s.expectJobs("worker", 3)
	s.Expect(upgraded.Kill()).To(Succeed())

	s.installFields(func(spec *apiextensionsv1.JSONSchemaProps) {
		spec.Properties["priority"] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
		template := spec.Properties["jobTemplate"].Properties["spec"]
		template.Properties["newInKubernetes"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	})
	s.awaitFields(preflight.Fields{Unknown: []string{"spec.priority"}})
	s.create("newer", func(object map[string]any) { object["spec"].(map[string]any)["priority"] = int64(7) })
	s.create("with-a-newer-template", func(object map[string]any) {
		template := object["spec"].(map[string]any)["jobTemplate"].(map[string]any)["spec"].(map[string]any)
		template["newInKubernetes"] = "yes"
	})
	rolledBack := startEarly(t, s.control.Config())
	awaitReady(t, rolledBack)
	s.Expect(rolledBack.Logs()).To(And(ContainSubstring("the CRD is newer than this operator"), ContainSubstring("spec.priority")))
	s.expectJobs("with-a-newer-template", 3)
	s.Eventually(s.stalled).WithArguments("newer").Should(And(
		HaveField("Reason", scaledjobv1.ReasonInvalidSpec), HaveField("Message", ContainSubstring(`"spec.priority"`))))
	s.Expect(s.jobsOf("newer")).To(BeEmpty())

	s.Expect(s.admin.Patch(t.Context(), olderObject("newer"),
		client.RawPatch("application/json-patch+json", []byte(`[{"op":"remove","path":"/spec/priority"}]`)))).To(Succeed())
	s.expectJobs("newer", 3)
	s.Expect(s.admin.Patch(t.Context(), olderObject("worker"),
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"priority":1,"threshold":3}}`)))).To(Succeed())
	s.Eventually(s.stalled).WithArguments("worker").ShouldNot(BeNil())
	s.Expect(s.jobsOf("worker")).To(HaveLen(3), "running Jobs are left alone")
}

// installFields installs the CRD of this version with a change to the schema of the spec.
func (s *olderCluster) installFields(change func(spec *apiextensionsv1.JSONSchemaProps)) {
	s.t.Helper()
	s.install(func(schema *apiextensionsv1.CustomResourceValidation) {
		spec := schema.OpenAPIV3Schema.Properties["spec"]
		change(&spec)
		schema.OpenAPIV3Schema.Properties["spec"] = spec
	})
}

// awaitFields returns when the API server publishes a schema with these differences, which is later than it serves it.
func (s *olderCluster) awaitFields(want preflight.Fields) {
	s.t.Helper()
	schemas := must.Get(discovery.NewDiscoveryClientForConfig(s.control.Config()))(s)
	s.Eventually(func() (preflight.Fields, error) {
		document, err := preflight.ReadSchemas(s.t.Context(), schemas.RESTClient())
		if err != nil {
			return preflight.Fields{}, err
		}
		return preflight.CompareFields(document)
	}).Should(Equal(want))
}

// stalled is the condition Stalled of a ScaledJob; nil if it has none.
func (s *olderCluster) stalled(name string) (*metav1.Condition, error) {
	object := olderObject(name)
	if err := s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		return nil, err
	}
	var found scaledjobv1.ScaledJob
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &found)
	return apimeta.FindStatusCondition(found.Status.Conditions, scaledjobv1.ConditionStalled), err
}

// The CRD is deleted, and all ScaledJobs with it, and installed again while the operator runs.
func TestCRDIsInstalledAgain(t *testing.T) {
	t.Parallel()
	s := newOlderCluster(t)
	s.installSchema()
	s.startOperator()
	rarely := func(object map[string]any) {
		s.Expect(unstructured.SetNestedField(object, int64(3600), "spec", "pollingIntervalSeconds")).To(Succeed())
	}
	s.create("healthy", rarely)
	s.expectJobs("healthy", 3)
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	crd.SetName("scaledjobs.batch.miracle.dev")
	s.Expect(s.admin.Delete(t.Context(), crd)).To(Succeed())
	s.Eventually(func() bool {
		return apierrors.IsNotFound(s.admin.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
	}).Should(BeTrue())
	s.Expect(scene.Pause(t.Context(), 5*time.Second)).To(Succeed()) // for the operator to notice

	s.installSchema()
	s.Eventually(func() error {
		object := olderObject("probe")
		return client.IgnoreNotFound(s.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}).Should(Succeed())
	s.create("healthy", rarely)
	s.create("another", rarely)
	s.expectJobs("another", 3)
	s.expectJobs("healthy", 6) // there is no garbage collector here
}
