// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/skip"
)

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

func TestValuesOfAnOlderSchemaHarmNoOther(t *testing.T) {
	skip.UnderShort(t, "TestObjectsOfAnOlderSchemaHarmNoOther is the same for other fields")
	t.Parallel()
	s := newOlderCluster(t)
	s.create("healthy")
	for name, ill := range illValues {
		s.create(name, func(object map[string]any) {
			s.Expect(unstructured.SetNestedField(object, ill.value, ill.path...)).To(Succeed())
		})
	}
	s.installSchema()
	s.startOperator()
	s.expectJobs("healthy", 3)
	for _, name := range []string{"history-negative", "failed-negative", "threshold-zero", "threshold-minus", "minimum-negative"} {
		s.Eventually(s.active).WithContext(t.Context()).WithArguments(name).Should(Equal(int64(3)), name)
	}
	s.Expect(s.operator.Logs()).NotTo(ContainSubstring("Observed a panic"))
}

// active is what the status says of the active Jobs, nil where it says nothing.
func (s *olderCluster) active(ctx context.Context, name string) (any, error) {
	object := olderObject(name)
	err := s.admin.Get(ctx, client.ObjectKeyFromObject(object), object)
	active, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "activeJobs")
	return active, err
}

// Both the spec and the status are of another kind. Then the spec is corrected.
func TestObjectOfAnOlderSchemaThatIsCorrectedIsReported(t *testing.T) {
	t.Parallel()
	s := newOlderCluster(t)
	s.create("ill", func(object map[string]any) {
		s.Expect(unstructured.SetNestedField(object, "ten", "spec", "threshold")).To(Succeed())
	})
	s.Expect(s.admin.Status().Patch(t.Context(), olderObject("ill"),
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":"none"}}`)))).To(Succeed())
	s.installSchema()
	s.startOperator()
	s.Eventually(s.told).WithContext(t.Context()).WithArguments("ill").Should(BeTrue())

	s.set("ill", "/spec/threshold", int64(1))
	s.expectJobs("ill", 3)
	s.Eventually(s.active).WithContext(t.Context()).WithArguments("ill").Should(Equal(int64(3)))
}
