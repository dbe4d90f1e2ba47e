// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// schemaProps is a schema of the CRD.
type schemaProps = apiextensionsv1.JSONSchemaProps

// document returns the OpenAPI document of an API server with the generated CRD, after a change.
func document(t *testing.T, change func(root *schemaProps)) []byte {
	t.Helper()
	g := NewWithT(t)
	manifest := must.Get(os.ReadFile("../../config/crd/bases/batch.miracle.dev_scaledjobs.yaml"))(g)
	var crd apiextensionsv1.CustomResourceDefinition
	g.Expect(yaml.Unmarshal(manifest, &crd)).To(Succeed())
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	change(root)
	encoded := must.Get(json.Marshal(root))(g)
	var schema map[string]any
	g.Expect(json.Unmarshal(encoded, &schema)).To(Succeed())
	schema["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": "batch.miracle.dev", "version": "v1", "kind": "ScaledJob"}}
	return must.Get(json.Marshal(map[string]any{"components": map[string]any{"schemas": map[string]any{
		"dev.miracle.batch.v1.ScaledJob": schema, "other": map[string]any{},
	}}}))(g)
}

// at changes the schema of a field below the root.
func at(change func(*schemaProps), path ...string) func(*schemaProps) {
	return func(root *schemaProps) {
		if len(path) == 0 {
			change(root)
			return
		}
		if path[0] == "[]" {
			at(change, path[1:]...)(root.Items.Schema)
			return
		}
		child := root.Properties[path[0]]
		at(change, path[1:]...)(&child)
		root.Properties[path[0]] = child
	}
}

func without(name string) func(*schemaProps) {
	return func(parent *schemaProps) { delete(parent.Properties, name) }
}

func with(name string) func(*schemaProps) {
	return func(parent *schemaProps) { parent.Properties[name] = schemaProps{Type: "string"} }
}

func preserving(parent *schemaProps) {
	parent.XPreserveUnknownFields, parent.Properties = new(true), nil
}

func TestCompareFields(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*schemaProps)
		want   Fields
	}{
		"the generated CRD":            {func(*schemaProps) {}, Fields{}},
		"older by a field of the spec": {at(without("suspend"), "spec"), Fields{Missing: []string{"spec.suspend"}}},
		"older by a value of the status": {at(func(mode *schemaProps) {
			mode.Enum = []apiextensionsv1.JSON{{Raw: []byte(`"Events"`)}, {Raw: []byte("1")}}
		}, "status", "mode"), Fields{Missing: []string{"status.mode=Tracking"}}},
		"older by a field of the status":  {at(without("mode"), "status"), Fields{Missing: []string{"status.mode"}}},
		"older by a field with fields":    {at(without("redis"), "spec"), Fields{Missing: []string{"spec.redis"}}},
		"older by a field of an item":     {at(without("stream"), "spec", "queues", "[]"), Fields{Missing: []string{"spec.queues[].stream"}}},
		"older by all of the status":      {without("status"), Fields{Missing: []string{"status"}}},
		"newer by a field of the spec":    {at(with("priority"), "spec"), Fields{Unknown: []string{"spec.priority"}}},
		"newer by a field of an item":     {at(with("shard"), "spec", "queues", "[]"), Fields{Unknown: []string{"spec.queues[].shard"}}},
		"newer by a field of the status":  {at(with("shards"), "status"), Fields{}},
		"newer by a field of a Job":       {at(with("new"), "spec", "jobTemplate", "spec"), Fields{}},
		"older by a field of a Job":       {at(without("suspend"), "spec", "jobTemplate", "spec"), Fields{}},
		"older by a field of a condition": {at(without("message"), "status", "conditions", "[]"), Fields{}},
		"anything":                        {preserving, Fields{}},
		"anything in the spec":            {at(preserving, "spec"), Fields{}},
		"anything in a field":             {at(preserving, "spec", "redis"), Fields{}},
		"a field that is of no kind":      {at(func(s *schemaProps) { *s = schemaProps{} }, "spec", "rollout"), Fields{Missing: []string{"spec.rollout.strategy", "spec.rollout.propagationPolicy"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields := must.Get(CompareFields(document(t, c.change)))(NewWithT(t))
			NewWithT(t).Expect(fields).To(Equal(c.want))
		})
	}
}

func TestDocumentsThatDoNotTell(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(CompareFields([]byte(`{"components":{"schemas":{"other":{}}}}`))).Error().To(MatchError(ErrNotPublished))
	g.Expect(CompareFields([]byte(`{"components":{"schemas":{"b":null}}}`))).Error().To(MatchError(ErrNotPublished))
	g.Expect(CompareFields([]byte(`{}`))).Error().To(MatchError(ErrNotPublished))
	_, err := CompareFields([]byte(`<html>`))
	g.Expect(err).To(MatchError(ContainSubstring("OpenAPI document of batch.miracle.dev/v1")))
}

func TestReadSchemasUpToTheLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size int
		read bool
	}{
		"empty": {0, true}, "as large as allowed": {maxDocumentBytes, true},
		"too large": {maxDocumentBytes + 1, false}, "much too large": {4 * maxDocumentBytes, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				page := make([]byte, 1<<16)
				for left := c.size; left > 0; left -= len(page) {
					if _, err := w.Write(page[:min(left, len(page))]); err != nil {
						return // the client has read enough
					}
				}
			}))
			defer server.Close()
			client := must.Get(discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL}))(g)
			document, err := ReadSchemas(t.Context(), client.RESTClient())
			if !c.read {
				g.Expect(err).To(MatchError(ContainSubstring("larger than 8 MiB")))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(len(document)).To(Equal(c.size)) // HaveLen would print the document.
		})
	}
}

func TestReadSchemasThatAreNotThere(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client := must.Get(discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL}))(g)
	_, err := ReadSchemas(t.Context(), client.RESTClient())
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
}

// An operator that does not know a field leaves a ScaledJob alone that has it. A default that the CRD sets would give
// the field to all ScaledJobs, also while the CRD is newer than the operator during an upgrade. New fields get their
// defaults in the code.
func TestTheCRDSetsNoMoreDefaults(t *testing.T) {
	t.Parallel()
	var root *schemaProps
	document(t, func(found *schemaProps) { root = found })
	var paths []string
	for name, field := range root.Properties["spec"].Properties {
		if name != "jobTemplate" {
			paths = append(paths, defaultsIn("spec."+name, field)...)
		}
	}
	NewWithT(t).Expect(paths).To(ConsistOf(
		"spec.failedJobsHistoryLimit", "spec.maxReplicas", "spec.minReplicas", "spec.notifications", "spec.pollingIntervalSeconds",
		"spec.queuesCalculation", "spec.redis.mode", "spec.rollout.propagationPolicy", "spec.rollout.strategy",
		"spec.scalingStrategy.claimGraceSeconds", "spec.scalingStrategy.type", "spec.successfulJobsHistoryLimit",
	))
}

// The API server would add a default to every template when it reads it. Then all Jobs would seem to have an earlier
// template after the next edit of any field.
func TestTheCRDSetsNoDefaultInTheTemplate(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var template schemaProps
	document(t, func(found *schemaProps) { template = found.Properties["spec"].Properties["jobTemplate"] })
	g.Expect(defaultsIn("spec.jobTemplate", template)).To(BeEmpty())

	container := template.Properties["spec"].Properties["template"].Properties["spec"].Properties["containers"].Items.Schema
	ports := container.Properties["ports"].Items.Schema
	protocol := ports.Properties["protocol"]
	protocol.Default = &apiextensionsv1.JSON{Raw: []byte(`"TCP"`)}
	ports.Properties["protocol"] = protocol
	g.Expect(defaultsIn("spec.jobTemplate", template)).To(HaveExactElements(HaveSuffix("containers[].ports[].protocol")))
}

// defaultsIn are the paths of the fields with a default.
func defaultsIn(path string, of schemaProps) (paths []string) {
	if of.Default != nil {
		paths = append(paths, path)
	}
	for name, child := range of.Properties {
		paths = append(paths, defaultsIn(path+"."+name, child)...)
	}
	if of.Items != nil {
		paths = append(paths, defaultsIn(path+"[]", *of.Items.Schema)...)
	}
	if values := of.AdditionalProperties; values != nil && values.Schema != nil {
		paths = append(paths, defaultsIn(path+"{}", *values.Schema)...)
	}
	return paths
}
