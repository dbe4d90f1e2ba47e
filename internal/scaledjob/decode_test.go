// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

const (
	healthy = `{"metadata":{"name":"healthy","generation":2},"spec":{"queueName":"emails","threshold":3},"status":{"activeJobs":4}}`
	oldSpec = `{"metadata":{"name":"old-spec","generation":2},"spec":{"queueName":"emails","threshold":"ten"},"status":{"activeJobs":4}}`
	oldBoth = `{"metadata":{"name":"old-both","generation":2},"spec":"emails","status":{"activeJobs":"4"}}`
	oldRest = `{"metadata":{"name":"old-status","generation":2},"spec":{"queueName":"emails","threshold":3},"status":[]}`
	neither = `{"metadata":{"name":"neither"},"spec":{"queueNAME":"emails"}}`
)

// decode decodes like a client.
func decode(g Gomega, object string) runtime.Object {
	scheme := runtime.NewScheme()
	AddToScheme(scheme)
	read, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode([]byte(object), nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	return read
}

func decodeList(g Gomega) *List {
	kind := `"apiVersion":"batch.miracle.dev/v1","kind":"ScaledJobList"`
	items := healthy + "," + oldSpec + "," + oldBoth + "," + oldRest + "," + neither
	return decode(g, "{"+kind+`,"metadata":{"resourceVersion":"7"},"items":[`+items+"]}").(*List)
}

func TestOneBrokenObjectLeavesTheOthersReadable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	list := decodeList(g)
	g.Expect(list.ResourceVersion).To(Equal("7"))
	g.Expect(list.Items).To(HaveLen(5))

	spec := scaledjobv1.ScaledJobSpec{QueueName: "emails", Threshold: 3}
	status := scaledjobv1.ScaledJobStatus{ActiveJobs: 4}
	for i, want := range []struct {
		name                string
		spec                scaledjobv1.ScaledJobSpec
		status              scaledjobv1.ScaledJobStatus
		brokenSpec, noState string
	}{
		{name: "healthy", spec: spec, status: status},
		{name: "old-spec", status: status, brokenSpec: "threshold"},
		{name: "old-both", brokenSpec: "string", noState: "activeJobs"},
		{name: "old-status", spec: spec, noState: "array"},
		{name: "neither", brokenSpec: "know spec.queueNAME"}, // Field names are case-sensitive.
	} {
		is := list.Items[i]
		g.Expect(is.Name).To(Equal(want.name))
		g.Expect(is.Spec).To(Equal(want.spec), is.Name)
		g.Expect(is.Status).To(Equal(want.status), is.Name)
		expectError(g, is.SpecErr, want.brokenSpec)
		expectError(g, is.StatusErr, want.noState)
	}
}

func expectError(g Gomega, err error, about string) {
	if about == "" {
		g.ExpectWithOffset(1, err).NotTo(HaveOccurred())
	} else {
		g.ExpectWithOffset(1, err).To(MatchError(ContainSubstring(about)))
	}
}

// unknownFields returns the fields that an error is about.
func unknownFields(g Gomega, err error) []string {
	unknown, is := errors.AsType[*UnknownFieldsError](err)
	g.ExpectWithOffset(1, is).To(BeTrue(), "%v", err)
	return unknown.UnknownFields()
}

func TestFieldsThatAreNotKnown(t *testing.T) {
	type row struct {
		object string
		want   []string
	}
	bubble.Each(t, map[string]row{
		"none":                 {`{"spec":{"queueName":"emails"}}`, nil},
		"one":                  {`{"spec":{"queueName":"emails","priority":0}}`, []string{"spec.priority"}},
		"two, one in a list":   {`{"spec":{"new":{"a":1},"queues":[{},{"shard":1}]}}`, []string{"spec.new", "spec.queues[1].shard"}},
		"in the template":      {`{"spec":{"jobTemplate":{"spec":{"newInKubernetes":1,"template":{"new":1}}}}}`, nil},
		"next to the template": {`{"spec":{"jobTemplates":1}}`, []string{"spec.jobTemplates"}},
		"outside the spec":     {`{"metadata":{"new":1},"status":{"new":1},"new":1}`, nil},
		"in the spec of an object whose status can't be decoded": {`{"spec":{"new":1},"status":[]}`, []string{"spec.new"}},
	}, func(_ *testing.T, g Gomega, c row) {
		var found ScaledJob
		g.Expect(found.UnmarshalJSON([]byte(c.object))).To(Succeed())
		if c.want == nil {
			g.Expect(found.SpecErr).NotTo(HaveOccurred())
			return
		}
		g.Expect(found.SpecErr).To(MatchError(ContainSubstring(c.want[0])))
		g.Expect(unknownFields(g, found.SpecErr)).To(Equal(c.want))
	})
}

// The decoder reports no more than 100 unknown fields of an object.
func TestManyFieldsThatAreNotKnownHideNoOther(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, count := range []int{99, 100, 150} {
		var many strings.Builder
		for i := range count {
			fmt.Fprintf(&many, `"new%d":1,`, i)
		}
		for name, object := range map[string]string{
			"in the template":                    `{"spec":{"jobTemplate":{%s"spec":{}},"pauseUntil":1}}`,
			"in the metadata":                    `{"metadata":{%s"name":"a"},"spec":{"pauseUntil":1}}`,
			"in a status before the spec":        `{"status":{%s"activeJobs":1},"spec":{"pauseUntil":1}}`,
			"in the template of a broken object": `{"spec":{"jobTemplate":{%s"spec":{}},"pauseUntil":1},"status":[]}`,
			"next to the spec":                   `{%s"spec":{"pauseUntil":1}}`,
		} {
			var found ScaledJob
			g.Expect(found.UnmarshalJSON(fmt.Appendf(nil, object, many.String()))).To(Succeed())
			g.Expect(unknownFields(g, found.SpecErr)).To(Equal([]string{"spec.pauseUntil"}), "%d %s", count, name)
		}
	}
}

// What the spec says besides stays known, such as the polling interval.
func TestTheRestOfASpecWithAnUnknownFieldIsDecoded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var found ScaledJob
	g.Expect(found.UnmarshalJSON([]byte(`{"spec":{"new":1,"pollingIntervalSeconds":7}}`))).To(Succeed())
	g.Expect(found.Spec.PollingIntervalSeconds).To(Equal(int32(7)))
}

func TestMetadataMustBeReadable(t *testing.T) {
	t.Parallel()
	NewWithT(t).Expect((&ScaledJob{}).UnmarshalJSON([]byte(`{"metadata":7}`))).NotTo(Succeed())
}

func TestCopiesAreDeep(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	list := decodeList(g)
	copied := list.DeepCopyObject().(*List)
	g.Expect(copied).To(Equal(list))
	list.Items[0].Spec.QueueName = "others"
	g.Expect(copied.Items[0].Spec.QueueName).To(Equal("emails"))
}
