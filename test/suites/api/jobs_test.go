// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// openAPI is a schema as the API server publishes it.
type openAPI struct {
	Ref                  string             `json:"$ref"`
	AllOf                []openAPI          `json:"allOf"`
	Properties           map[string]openAPI `json:"properties"`
	Items                *openAPI           `json:"items"`
	AdditionalProperties *openAPI           `json:"additionalProperties"`
}

// schemas are those of the API server, by their names.
type schemas map[string]openAPI

// fields are all fields below a schema.
func (s schemas) fields(path string, schema openAPI) (found []string) {
	for _, one := range schema.AllOf {
		found = append(found, s.fields(path, one)...)
	}
	if name := strings.TrimPrefix(schema.Ref, "#/components/schemas/"); name != "" {
		found = append(found, s.fields(path, s[name])...)
	}
	for name, field := range schema.Properties {
		found = append(found, path+"."+name)
		found = append(found, s.fields(path+"."+name, field)...)
	}
	if schema.Items != nil {
		found = append(found, s.fields(path+"[]", *schema.Items)...)
	}
	if schema.AdditionalProperties != nil {
		found = append(found, s.fields(path+".*", *schema.AdditionalProperties)...)
	}
	return found
}

// withdrawn is a field that only Kubernetes 1.35 has, behind a feature gate.
const withdrawn = ".spec.jobTemplate.spec.template.spec.workloadRef"

// A field that a Job has and the CRD lacks would be refused or dropped. On an older API server, the CRD has more
// fields.
func TestTheTemplateHasEachFieldOfAJob(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	web, err := rest.HTTPClientFor(control.Config())
	g.Expect(err).NotTo(HaveOccurred())
	answer, err := web.Get(control.Config().Host + "/openapi/v3/apis/batch/v1")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = answer.Body.Close() }()
	var document struct {
		Components struct{ Schemas schemas }
	}
	g.Expect(json.NewDecoder(answer.Body).Decode(&document)).To(Succeed())

	known := map[string]bool{}
	_, theirs := properties(g)
	for _, field := range theirs {
		known[field.path] = true
	}
	all := document.Components.Schemas
	fields := all.fields(".spec.jobTemplate", all["io.k8s.api.batch.v1.JobTemplateSpec"])
	g.Expect(len(fields)).To(BeNumerically(">", 700))
	for _, field := range fields {
		if !strings.HasPrefix(field, withdrawn) {
			g.Expect(known).To(HaveKey(field))
		}
	}
}
