// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// enumerations returns the values that the CRD allows, by the path of the field; "[0]" stands for the items of a list.
func enumerations(path string, schema *apiextensionsv1.JSONSchemaProps, found map[string][]string) {
	for _, value := range schema.Enum {
		found[path] = append(found[path], strings.Trim(string(value.Raw), `"`))
	}
	for name := range schema.Properties {
		if property := schema.Properties[name]; name != "jobTemplate" {
			enumerations(path+"."+name, &property, found)
		}
	}
	if schema.Items != nil {
		enumerations(path+"[0]", schema.Items.Schema, found)
	}
}

// stored returns a ScaledJob in which the field at a path has this value.
func stored(path, value string) []byte {
	var object any = value
	for _, step := range slices.Backward(strings.Split(path, ".")) {
		name, isList := strings.CutSuffix(step, "[0]")
		if isList {
			object = []any{object}
		}
		object = map[string]any{name: object}
	}
	data, _ := json.Marshal(object)
	return data
}

// Whatever a newer CRD allows, the operator takes only the values that it knows. The CRD says which fields have any.
func TestValuesThatAreNotKnown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	manifest, err := os.ReadFile("../../config/crd/bases/batch.miracle.dev_scaledjobs.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var crd apiextensionsv1.CustomResourceDefinition
	g.Expect(yaml.Unmarshal(manifest, &crd)).To(Succeed())
	spec, found := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"], map[string][]string{}
	enumerations("spec", &spec, found)
	g.Expect(len(found)).To(BeNumerically(">=", 9))
	for path, values := range found {
		for _, value := range values {
			g.Expect(specErr(g, path, value)).NotTo(HaveOccurred(), "%s: %s", path, value)
		}
		err := specErr(g, path, "OfANewerVersion")
		if path == "spec.notifications" {
			g.Expect(err).NotTo(HaveOccurred(), "the queue is polled")
			continue
		}
		g.Expect(unknownFields(g, err)).To(Equal([]string{path + ": OfANewerVersion"}))
	}
}

func specErr(g Gomega, path, value string) error {
	var sj ScaledJob
	g.Expect(sj.UnmarshalJSON(stored(path, value))).To(Succeed())
	return sj.SpecErr
}

func TestFieldsAndValuesThatAreNotKnown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var sj ScaledJob
	g.Expect(sj.UnmarshalJSON([]byte(`{"spec":{"new":1,"scalingStrategy":{"type":"Greedy"}}}`))).To(Succeed())
	g.Expect(unknownFields(g, sj.SpecErr)).To(Equal([]string{"spec.new", "spec.scalingStrategy.type: Greedy"}))
}
