// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
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

// Whoever comes from an earlier schema may have ScaledJobs in store that no
// client can decode. They get no Job, and are told of, but the others are served,
// whether such an object is there from the start or turns up later.
func TestObjectsOfAnOlderSchemaHarmNoOther(t *testing.T) {
	t.Parallel()
	s := newOlderCluster(t)
	s.create("healthy")
	for name, ill := range illKinds {
		s.create(name, func(object map[string]any) {
			unstructured.RemoveNestedField(object, ill.path...)
			if ill.value != nil {
				s.Expect(unstructured.SetNestedField(object, ill.value, ill.path...)).To(Succeed())
			}
		})
	}
	s.installSchema()
	s.startOperator()
	s.expectJobs("healthy", 3)
	for name := range illKinds {
		s.Eventually(s.told).WithContext(t.Context()).WithArguments(name).Should(BeTrue(), name)
	}

	s.Expect(s.installAnySchema()).To(Succeed()) // as one who rolls back does
	s.create("late", func(object map[string]any) {
		s.Expect(unstructured.SetNestedField(object, "ten", "spec", "threshold")).To(Succeed())
	})
	s.Eventually(s.told).WithContext(t.Context()).WithArguments("late").Should(BeTrue())
	s.create("healthy-too")
	s.expectJobs("healthy-too", 3)
	s.awaitReconciles("healthy-too")
	s.Expect(s.jobsOf("")).To(HaveLen(6), "Jobs of the two that are healthy")

	s.set("late", "/spec/threshold", int64(1))
	s.expectJobs("late", 3)
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
	s.Expect(s.installAnySchema()).To(Succeed())
	var err error
	s.admin, err = client.New(s.control.Config(), client.Options{})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.redis.Client().LPush(t.Context(), "messages", 1, 2, 3).Err()).To(Succeed())
	return s
}

// crds is the folder of the generated CRD.
const crds = "../../../config/crd/bases"

// installAnySchema installs the CRD without what is known of the fields.
func (s *olderCluster) installAnySchema() error {
	files, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("one CRD expected, not %v: %w", files, err)
	}
	manifest, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(manifest, &crd); err != nil {
		return err
	}
	version := &crd.Spec.Versions[0]
	version.Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	if manifest, err = yaml.Marshal(crd); err != nil {
		return err
	}
	return s.control.Apply(s.t.Context(), bytes.NewReader(manifest))
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

// told says whether the operator tells of what is wrong with a ScaledJob: by its
// condition, or else in the log.
func (s *olderCluster) told(ctx context.Context, name string) (bool, error) {
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

// awaitReconciles returns after three more reconciles of the ScaledJob.
func (s *olderCluster) awaitReconciles(name string) {
	s.t.Helper()
	reconciles := func() float64 {
		all, err := s.operator.Metrics(s.t.Context())
		s.Expect(err).NotTo(HaveOccurred())
		return all.Sum("scaledjob_reconcile_total", fmt.Sprintf("scaledjob=%q", name))
	}
	before := reconciles()
	s.Eventually(reconciles).Should(BeNumerically(">=", before+3))
}
