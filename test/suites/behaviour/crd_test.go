// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bytes"
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
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/preflight"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/manifests"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// A control plane has one CRD, so that these take turns in one of their own. In the beginning there is none.
func TestOperatorAndItsCRD(t *testing.T) {
	t.Parallel()
	control := cluster.New(t, cluster.Options{})
	t.Run("operator starts before its CRD", func(t *testing.T) { operatorStartsBeforeItsCRD(t, control) })
	for name, test := range map[string]func(*olderCluster){
		"objects of an older schema harm no other": objectsOfAnOlderSchemaHarmNoOther,
		"operator and CRD of different versions":   operatorAndCRDOfDifferentVersions,
		"an upgrade of the CRD replaces nothing":   anUpgradeOfTheCRDReplacesNothing,
		"CRD is installed again":                   crdIsInstalledAgain,
	} {
		t.Run(name, func(t *testing.T) { test(newOlderCluster(t, control)) })
	}
}

// Everything is applied in one command, and the operator is there before its CRD, and before its permissions.
func operatorStartsBeforeItsCRD(t *testing.T, control *cluster.Cluster) {
	t.Helper()
	g := NewWithT(t)
	admin := must.Get(operator.NewClient(control.Config()))(g)
	g.Expect(admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operator.Namespace}})).To(Succeed())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: operator.ServiceAccount}}
	g.Expect(admin.Create(t.Context(), account)).To(Succeed())
	access := must.Get(control.ServiceAccountConfig(t.Context(), account.Namespace, account.Name))(g)

	stopped := startEarly(t, access)
	g.Eventually(stopped.Logs).Should(ContainSubstring("waiting for their CRD"))
	expectEnd(t, stopped)

	early := startEarly(t, access)
	g.Eventually(early.Logs).Should(ContainSubstring("waiting for their CRD"))
	g.Expect(operator.Install(t.Context(), control)).To(Succeed())
	awaitReady(t, early)
	redis := redistest.New(t, redistest.Options{})
	s := &sjtest.ScaledJob{
		API: admin, Redis: redis.Client(), Address: redis.Addr(), Namespace: metav1.NamespaceDefault, Name: "worker", Queue: "emails",
	}
	g.Expect(s.Create(t.Context())).To(Succeed())
	g.Expect(s.Observe(t.Context(), control.Config(), s.Due)).To(Succeed())
	g.Expect(s.Push(t.Context(), 1)).To(Succeed())
	g.Eventually(s.Jobs.Created).Should(Equal(1))
	g.Expect(strings.Count(early.Logs(), "waiting for their CRD")).To(Equal(1))
	expectEnd(t, early)
}

// edit changes a ScaledJob before it is created.
type edit = func(object map[string]any)

// fields sets fields of the spec, given in YAML.
func fields(text string) edit {
	return func(object map[string]any) {
		parsed, err := manifests.Parse(text)
		if err != nil {
			panic(err)
		}
		spec := object["spec"].(map[string]any)
		maps.Copy(spec, parsed[0].Object)
		if _, has := parsed[0].Object["queues"]; has {
			delete(spec, "queueName")
		}
	}
}

// illKinds have values of a kind that the schema refuses today.
var illKinds = map[string]edit{
	"threshold-in-words":    fields(`{threshold: ten}`),
	"maximum-beyond-int32":  fields(`{maxReplicas: 3000000000}`),
	"interval-in-fractions": fields(`{pollingIntervalSeconds: 1.5}`),
	"queue-in-digits":       fields(`{queueName: 5}`),
	"template-in-words":     fields(`{jobTemplate: worker}`),
	"spec-in-words":         func(object map[string]any) { object["spec"] = "worker" },
	"no-spec":               func(object map[string]any) { delete(object, "spec") },
	"quantity-in-words":     fields(`{jobTemplate: {spec: {template: {spec: {containers: [{name: worker, image: none}], overhead: {cpu: much}}}}}}`),
}

// illValues are of the right kind, but such as the schema refuses today.
var illValues = map[string]edit{
	"history-negative":       fields(`{successfulJobsHistoryLimit: -5}`),
	"failed-negative":        fields(`{failedJobsHistoryLimit: -2147483648}`),
	"interval-negative":      fields(`{pollingIntervalSeconds: -5}`),
	"interval-huge":          fields(`{pollingIntervalSeconds: 2147483647}`),
	"threshold-zero":         fields(`{threshold: 0}`),
	"threshold-minus":        fields(`{threshold: -9223372036854775808}`),
	"activation-minus":       fields(`{activationThreshold: -3}`),
	"minimum-negative":       fields(`{minReplicas: -3}`),
	"maximum-negative":       fields(`{maxReplicas: -3}`),
	"queue-empty":            fields(`{queueName: ""}`),
	"queue-long":             fields(`{queueName: ` + strings.Repeat("q", 500_000) + `}`),
	"address-empty":          fields(`{redisAddress: ""}`),
	"address-odd":            fields(`{redisAddress: "redis://[::1:99999/7?x=\n"}`),
	"address-long":           fields(`{redisAddress: "` + strings.Repeat("h", 500_000) + `:1"}`),
	"notifications":          fields(`{notifications: Sometimes}`),
	"queue-binary":           fields(`{queueName: "a\x00b\r\nFLUSHALL\r\n"}`),
	"template-null":          fields(`{jobTemplate: {}}`),
	strings.Repeat("n", 253): fields(`{threshold: 1}`),
}

// illQueues are specs of queues and strategies such as the schema refuses today.
var illQueues = map[string]edit{
	"type-unknown":     fields(`{queues: [{name: messages, type: Heap}]}`),
	"role-unknown":     fields(`{queues: [{name: messages, role: Lost}]}`),
	"name-empty":       fields(`{queues: [{name: ""}]}`),
	"name-missing":     fields(`{queues: [{type: List}]}`),
	"queues-empty":     fields(`{queues: []}`),
	"queue-minus":      fields(`{queues: [{name: messages, threshold: -7}]}`),
	"threshold-least":  fields(`{queues: [{name: messages, threshold: -9223372036854775808}]}`),
	"window-unknown":   fields(`{queues: [{name: sorted, type: SortedSet, sortedSet: {window: Soon, scoreUnit: years}}]}`),
	"window-on-list":   fields(`{queues: [{name: messages, type: List, sortedSet: {window: Due}}]}`),
	"stream-on-list":   fields(`{queues: [{name: messages, type: List, stream: {consumerGroup: "a\x00\r\n"}}]}`),
	"role-on-stream":   fields(`{queues: [{name: none, type: Stream, role: InProgress}]}`),
	"all-in-progress":  fields(`{queues: [{name: messages, role: InProgress}]}`),
	"same-twice":       fields(`{queues: [{name: messages}, {name: messages}]}`),
	"both-types":       fields(`{queues: [{name: messages}, {name: messages, type: Stream}]}`),
	"in-progress-min":  fields(`{queuesCalculation: Min, queues: [{name: messages}, {name: x, role: InProgress}]}`),
	"calculation":      fields(`{queuesCalculation: Median}`),
	"strategy-unknown": fields(`{scalingStrategy: {type: Wild}}`),
	"custom-missing":   fields(`{scalingStrategy: {type: Custom}}`),
	"percentage-500":   custom(500, "-9223372036854775808"),
	"percentage-minus": custom(-500, "9223372036854775807"),
	"grace-minus":      fields(`{scalingStrategy: {type: Accurate, claimGraceSeconds: -1}}`),
	"grace-huge":       fields(`{scalingStrategy: {type: Accurate, claimGraceSeconds: 2147483647}}`),
	"rollout-unknown":  fields(`{rollout: {strategy: Big, propagationPolicy: Orphan}}`),
	"minimum-custom": fields(
		`{minReplicas: -2147483648, scalingStrategy: {type: Custom, custom: {queueLengthDeduction: 9223372036854775807}}}`),
	// Far more than the schema allows.
	"many": fields(`{queues: [` + strings.Repeat(`{name: messages, type: List, threshold: 2}, `, 200) + `]}`),
}

func custom(percentage int, deduction string) edit {
	return fields(fmt.Sprintf(
		`{scalingStrategy: {type: Custom, custom: {runningJobPercentage: %d, queueLengthDeduction: %s}}}`, percentage, deduction))
}

// Whoever comes from an earlier schema may have ScaledJobs in store that no client can decode, or that ask for what
// makes no sense. The former get no Job, and are reported. Neither harms others, whether it is there from the start or
// turns up later.
func objectsOfAnOlderSchemaHarmNoOther(s *olderCluster) {
	s.create("healthy")
	for _, ill := range []map[string]edit{illKinds, illValues, illQueues} {
		for name, change := range ill {
			s.create(name, change)
		}
	}
	s.patchStatus("threshold-in-words", `{"status":{"conditions":"none"}}`) // A status may be of another kind, too.
	s.installSchema()
	s.startOperator()
	s.expectJobs("healthy", 3)
	for name := range illKinds {
		s.Eventually(s.reported).WithArguments(name).Should(BeTrue(), name)
	}
	for _, name := range []string{"history-negative", "failed-negative", "threshold-zero", "threshold-minus", "minimum-negative"} {
		s.Eventually(s.status).WithArguments(name, "activeJobs").Should(Equal(int64(3)), name)
	}
	s.awaitReconciles(slices.Collect(maps.Keys(illQueues))...)
	for name := range illQueues {
		s.Expect(s.status(name, "desiredJobs")).To(Or(BeNil(), BeNumerically(">=", 0)), name)
	}
	for name := range illKinds {
		s.Expect(s.jobsOf(name)).To(BeEmpty(), name)
	}
	s.patch("threshold-in-words", `{"spec":{"threshold":1}}`)
	s.expectJobs("threshold-in-words", 3)
	s.Eventually(s.status).WithArguments("threshold-in-words", "activeJobs").Should(Equal(int64(3)))

	s.installAnySchema() // as one who rolls back does
	s.create("late", fields(`{threshold: ten}`))
	s.Eventually(s.reported).WithArguments("late").Should(BeTrue())
	s.create("healthy-too")
	s.expectJobs("healthy-too", 3)
	s.awaitReconciles("healthy-too")

	s.patch("late", `{"spec":{"threshold":1}}`)
	s.expectJobs("late", 3)
	s.Expect(s.operator.Logs()).NotTo(ContainSubstring("Observed a panic"))
}

// The operator is upgraded before the CRD, and waits. Later the operator is rolled back, and the CRD is not: what the
// operator does not know, it does not do.
func operatorAndCRDOfDifferentVersions(s *olderCluster) {
	s.installFields(func(spec *apiextensionsv1.JSONSchemaProps) { delete(spec.Properties, "suspend") })
	s.awaitFields(preflight.Fields{Missing: []string{"spec.suspend"}})
	upgraded := startEarly(s.t, s.control.Config())
	s.Eventually(upgraded.Logs).Should(And(
		ContainSubstring("older than this operator; waiting for that of this version"), ContainSubstring("spec.suspend")))
	s.create("worker")
	s.installFields(func(*apiextensionsv1.JSONSchemaProps) {})
	awaitReady(s.t, upgraded)
	s.expectJobs("worker", 3)
	s.Expect(upgraded.Kill()).To(Succeed())

	s.installFields(func(spec *apiextensionsv1.JSONSchemaProps) {
		spec.Properties["priority"] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
		template := spec.Properties["jobTemplate"].Properties["spec"]
		template.Properties["newInKubernetes"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	})
	s.awaitFields(preflight.Fields{Unknown: []string{"spec.priority"}})
	s.create("newer", fields(`{priority: 7}`))
	s.create("with-a-newer-template", func(object map[string]any) {
		s.Expect(unstructured.SetNestedField(object, "yes", "spec", "jobTemplate", "spec", "newInKubernetes")).To(Succeed())
	})
	rolledBack := startEarly(s.t, s.control.Config())
	awaitReady(s.t, rolledBack)
	s.Expect(rolledBack.Logs()).To(And(ContainSubstring("the CRD is newer than this operator"), ContainSubstring("spec.priority")))
	s.expectJobs("with-a-newer-template", 3)
	s.Eventually(s.condition).WithArguments("newer", scaledjobv1.ConditionStalled).Should(And(
		HaveKeyWithValue("reason", scaledjobv1.ReasonInvalidSpec), HaveKeyWithValue("message", ContainSubstring(`"spec.priority"`))))
	s.Expect(s.jobsOf("newer")).To(BeEmpty())

	s.patch("newer", `{"spec":{"priority":null}}`)
	s.expectJobs("newer", 3)
	s.patch("worker", `{"spec":{"priority":1,"threshold":3}}`)
	s.Eventually(s.condition).WithArguments("worker", scaledjobv1.ConditionStalled).ShouldNot(BeEmpty())
	s.Expect(s.jobsOf("worker")).To(HaveLen(3), "running Jobs are left alone")
}

// Neither a rollback nor an upgrade of the CRD, nor a restart, changes the JSON of a template that is stored.
func anUpgradeOfTheCRDReplacesNothing(s *olderCluster) {
	s.installSchema()
	s.startOperator()
	s.create("worker", fields(`{rollout: {strategy: Immediate}}`))
	s.expectJobs("worker", 3)
	s.awaitReconciles("worker")
	first := s.uids("worker")
	unchanged := func(when string) {
		s.t.Helper()
		s.awaitReconciles("worker")
		s.Expect(s.uids("worker")).To(ConsistOf(first), when)
	}
	s.installAnySchema()
	s.patch("worker", `{"spec":{"maxReplicas":50}}`)
	unchanged("an earlier CRD")
	s.Expect(s.operator.Stop(s.t.Context())).To(Succeed())
	s.installSchema()
	s.patch("worker", `{"spec":{"maxReplicas":51}}`)
	s.startOperator()
	unchanged("an upgrade, a restart, and an edit of another field")

	s.Expect(s.operator.Stop(s.t.Context())).To(Succeed())
	s.patch("worker", `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"worker","image":"other"}]}}}}}}`)
	for maximum := range 5 {
		s.patch("worker", fmt.Sprintf(`{"spec":{"maxReplicas":%d}}`, 60+maximum))
	}
	s.patchStatus("worker", `{"status":null}`)
	s.startOperator()
	s.Eventually(s.uids).WithArguments("worker").
		Should(And(HaveLen(3), Not(ContainElement(BeElementOf(first)))), "an edit while no operator was there, and nothing reports it")
}

// The CRD is deleted, and all ScaledJobs with it, and installed again while the operator runs.
func crdIsInstalledAgain(s *olderCluster) {
	s.installSchema()
	s.startOperator()
	rarely := fields(`{pollingIntervalSeconds: 3600}`)
	s.create("healthy", rarely)
	s.expectJobs("healthy", 3)
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	crd.SetName("scaledjobs.batch.miracle.dev")
	s.Expect(s.admin.Delete(s.t.Context(), crd)).To(Succeed())
	s.Eventually(func() bool {
		return apierrors.IsNotFound(s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(crd), crd))
	}).Should(BeTrue())
	s.Expect(sjtest.Pause(s.t.Context(), 5*time.Second)).To(Succeed()) // for the operator to notice

	s.installSchema()
	s.Eventually(func() error {
		object := olderObject("probe")
		return client.IgnoreNotFound(s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(object), object))
	}).Should(Succeed())
	s.create("healthy", rarely)
	s.create("another", rarely)
	s.expectJobs("another", 3)
	s.expectJobs("healthy", 6) // there is no garbage collector here
}

// olderCluster is the control plane, at first with a schema that takes anything and without ScaledJobs and Jobs, and a
// queue of three messages.
type olderCluster struct {
	*WithT
	t        *testing.T
	control  *cluster.Cluster
	admin    client.Client
	redis    *redistest.Server
	operator *operator.Operator
}

func newOlderCluster(t *testing.T, control *cluster.Cluster) *olderCluster {
	t.Helper()
	s := &olderCluster{WithT: NewWithT(t), t: t, control: control, redis: redistest.New(t, redistest.Options{})}
	s.installAnySchema()
	s.admin = must.Get(client.New(s.control.Config(), client.Options{}))(s)
	for _, object := range []client.Object{olderObject(""), &batchv1.Job{}} {
		s.Expect(s.admin.DeleteAllOf(t.Context(), object, client.InNamespace(metav1.NamespaceDefault),
			client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	}
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

// installFields installs the CRD of this version with a change to the schema of the spec.
func (s *olderCluster) installFields(change func(spec *apiextensionsv1.JSONSchemaProps)) {
	s.t.Helper()
	s.install(func(schema *apiextensionsv1.CustomResourceValidation) {
		spec := schema.OpenAPIV3Schema.Properties["spec"]
		change(&spec)
		schema.OpenAPIV3Schema.Properties["spec"] = spec
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

// startOperator starts an operator for the cluster.
func (s *olderCluster) startOperator() {
	s.t.Helper()
	s.operator = operator.New(s.t, operator.Options{Cluster: s.control, Args: []string{noFallback}})
}

// create makes a ScaledJob that wants a Job for each of the messages, unless
// changes say otherwise. A schema that was just installed may not apply yet.
func (s *olderCluster) create(name string, changes ...edit) {
	s.t.Helper()
	object := olderObject(name)
	object.Object["spec"] = map[string]any{}
	for _, change := range append([]edit{fields(`
queueName: messages
redisAddress: ` + s.redis.Addr() + `
threshold: 1
pollingIntervalSeconds: 1
jobTemplate: {spec: {template: {spec: {containers: [{name: worker, image: none}]}}}}`)}, changes...) {
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

// patch changes a ScaledJob as kubectl patch does, and patchStatus its status.
func (s *olderCluster) patch(name, change string) {
	s.t.Helper()
	s.Expect(s.admin.Patch(s.t.Context(), olderObject(name), client.RawPatch(types.MergePatchType, []byte(change)))).To(Succeed())
}

func (s *olderCluster) patchStatus(name, change string) {
	s.t.Helper()
	s.Expect(s.admin.Status().Patch(s.t.Context(), olderObject(name), client.RawPatch(types.MergePatchType, []byte(change)))).To(Succeed())
}

// jobsOf are the Jobs of a ScaledJob, and uids the UIDs of those.
func (s *olderCluster) jobsOf(name string) []batchv1.Job {
	s.t.Helper()
	var jobs batchv1.JobList
	s.Expect(s.admin.List(s.t.Context(), &jobs,
		client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{scaledjobv1.LabelScaledJob: name})).To(Succeed())
	return jobs.Items
}

func (s *olderCluster) uids(name string) (uids []types.UID) {
	s.t.Helper()
	for _, job := range s.jobsOf(name) {
		uids = append(uids, job.GetUID())
	}
	return uids
}

func (s *olderCluster) expectJobs(name string, count int) {
	s.t.Helper()
	s.Eventually(s.jobsOf).WithArguments(name).Should(HaveLen(count), name)
}

// status is a field of the status, nil where it says nothing.
func (s *olderCluster) status(name, field string) any {
	s.t.Helper()
	object := olderObject(name)
	s.Expect(s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", field)
	return value
}

// condition is the condition of this type; nil if there is none.
func (s *olderCluster) condition(name, kind string) map[string]any {
	s.t.Helper()
	conditions, _ := s.status(name, "conditions").([]any)
	for _, condition := range conditions {
		if values, _ := condition.(map[string]any); values["type"] == kind {
			return values
		}
	}
	return nil
}

// reported says whether the operator reports what is wrong with a ScaledJob: by its condition, or else in the log.
func (s *olderCluster) reported(name string) bool {
	s.t.Helper()
	ready := s.condition(name, scaledjobv1.ConditionReady)
	return ready["status"] == string(metav1.ConditionFalse) || strings.Contains(s.operator.Logs(), fmt.Sprintf("%q", name))
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
