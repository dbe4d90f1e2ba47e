// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// definition is the CRD as a type, and as the JSON that kubectl makes of the manifest.
func definition(g Gomega) (crd *apiextensionsv1.CustomResourceDefinition, encoded []byte) {
	content, err := os.ReadFile(manifest)
	g.Expect(err).NotTo(HaveOccurred())
	encoded, err = yaml.YAMLToJSON(content)
	g.Expect(err).NotTo(HaveOccurred())
	crd = &apiextensionsv1.CustomResourceDefinition{}
	g.Expect(yaml.UnmarshalStrict(content, crd)).To(Succeed())
	return crd, encoded
}

// renamed makes the CRD one of another group, so that it can be created beside the installed one.
func renamed(crd *apiextensionsv1.CustomResourceDefinition, group string) *apiextensionsv1.CustomResourceDefinition {
	crd.Spec.Group = group
	crd.Name = crd.Spec.Names.Plural + "." + group
	crd.Spec.Names.ShortNames, crd.Spec.Names.Categories = nil, nil
	return crd
}

// property is a schema and where it stands.
type property struct {
	path   string
	schema *apiextensionsv1.JSONSchemaProps
}

// below are all properties below the schema, those of items and of the values of maps included.
func below(path string, schema *apiextensionsv1.JSONSchemaProps) (found []property) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		child := schema.Properties[name]
		at := path + "." + name
		found = append(found, property{at, &child})
		found = append(found, below(at, &child)...)
	}
	if schema.Items != nil {
		found = append(found, property{path + "[]", schema.Items.Schema})
		found = append(found, below(path+"[]", schema.Items.Schema)...)
	}
	if schema.AdditionalProperties != nil {
		found = append(found, property{path + ".*", schema.AdditionalProperties.Schema})
		found = append(found, below(path+".*", schema.AdditionalProperties.Schema)...)
	}
	return found
}

// properties are those of a ScaledJob: our own, and those below jobTemplate, which are Kubernetes' own.
func properties(g Gomega) (ours, theirs []property) {
	crd, _ := definition(g)
	g.Expect(crd.Spec.Versions).To(HaveLen(1))
	for _, found := range below("", crd.Spec.Versions[0].Schema.OpenAPIV3Schema) {
		if strings.HasPrefix(found.path, ".spec.jobTemplate.") {
			theirs = append(theirs, found)
		} else {
			ours = append(ours, found)
		}
	}
	return ours, theirs
}

// It is accepted by the API server as a whole, the cost of its rules included.
func TestEstablished(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var crd apiextensionsv1.CustomResourceDefinition
	g.Expect(newClient(g).Get(t.Context(), client.ObjectKey{Name: "scaledjobs.batch.miracle.dev"}, &crd)).To(Succeed())

	conditions := map[apiextensionsv1.CustomResourceDefinitionConditionType]apiextensionsv1.ConditionStatus{}
	for _, condition := range crd.Status.Conditions {
		conditions[condition.Type] = condition.Status
	}
	g.Expect(conditions).To(HaveKeyWithValue(apiextensionsv1.Established, apiextensionsv1.ConditionTrue))
	g.Expect(conditions).To(HaveKeyWithValue(apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionTrue))
	g.Expect(conditions).NotTo(HaveKey(apiextensionsv1.NonStructuralSchema))
	g.Expect(crd.Status.AcceptedNames.ShortNames).To(Equal([]string{"sjob"}))
	g.Expect(crd.Status.AcceptedNames.Categories).To(Equal([]string{"all"}))
}

func TestOurFieldsAreDescribed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ours, theirs := properties(g)
	for _, found := range ours {
		if strings.HasSuffix(found.path, "[]") || found.path == ".metadata" {
			continue
		}
		g.Expect(found.schema.Description).NotTo(BeEmpty(), found.path)
		if strings.HasPrefix(found.path, ".spec.") {
			name := found.path[strings.LastIndex(found.path, ".")+1:]
			g.Expect(found.schema.Description).To(HavePrefix(name+" "), found.path)
		}
	}
	g.Expect(len(theirs)).To(BeNumerically(">", 500), "the whole template is there")
	for _, found := range theirs {
		g.Expect(found.schema.Description).To(BeEmpty(), found.path)
	}
}

// Client-side apply stores the manifest in an annotation, and annotations are limited.
func TestClientSideApply(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	crd, encoded := definition(g)
	g.Expect(len(encoded)).To(BeNumerically("<", 262_144))

	renamed(crd, "apply.miracle.dev")
	metav1.SetMetaDataAnnotation(&crd.ObjectMeta, "kubectl.kubernetes.io/last-applied-configuration", string(encoded)+"\n")
	g.Expect(api.Create(t.Context(), crd.DeepCopy(), client.DryRunAll)).To(Succeed())

	// What the annotation can't hold is refused, so that the above says something.
	metav1.SetMetaDataAnnotation(&crd.ObjectMeta, "kubectl.kubernetes.io/last-applied-configuration", strings.Repeat("x", 262_144))
	err := api.Create(t.Context(), crd, client.DryRunAll)
	g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	g.Expect(err).To(MatchError(ContainSubstring("metadata.annotations: Too long")))
}

// Generated without generateEmbeddedObjectMeta, a template's metadata has no properties, and what it holds is dropped
// without a word. This shows that TestTemplateMetadataSurvives would notice.
func TestTemplateMetadataIsPrunedWithoutItsSchema(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	crd, _ := definition(g)
	renamed(crd, "pruning.miracle.dev")
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	template := spec.Properties["jobTemplate"]
	template.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{Type: "object"}
	template.XValidations = nil
	spec.Properties["jobTemplate"] = template
	encoded, err := yaml.Marshal(crd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(control.Apply(t.Context(), strings.NewReader(string(encoded)))).To(Succeed())

	sj := labelled(g, "pruned")
	sj.SetAPIVersion("pruning.miracle.dev/v1")
	g.Expect(client.WithFieldValidation(api, metav1.FieldValidationIgnore).Create(t.Context(), sj)).To(Succeed())

	kept, _, err := unstructured.NestedMap(sj.Object, "spec", "jobTemplate", "metadata")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kept).To(BeEmpty())
}

// Every string and number that passes for a quantity must be one that clients can decode, and soon.
func TestQuantityPatterns(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, theirs := properties(g)
	patterns := map[string]bool{}
	for _, found := range theirs {
		if found.schema.XPreserveUnknownFields != nil && found.schema.Pattern != "" {
			patterns[found.schema.Pattern] = true
		}
	}
	g.Expect(patterns).To(HaveLen(1))
	pattern := slices.Collect(maps.Keys(patterns))[0]
	for _, usual := range []string{"0", "1", "500m", "1.5", ".5", "+1", "128Mi", "1Gi", "12e6", "1E3", "100n", "10u", "3k", "2T", "1e-3"} {
		g.Expect(usual).To(MatchRegexp(pattern))
	}
	rapid.Check(t, func(t *rapid.T) {
		for _, drawn := range []any{rapid.StringMatching(pattern).Draw(t, "string"), rapid.Float64().Draw(t, "number")} {
			encoded, err := json.Marshal(drawn)
			if err != nil {
				t.Fatal(err)
			}
			var quantity resource.Quantity
			if err := json.Unmarshal(encoded, &quantity); err != nil {
				t.Fatalf("%s: %v", encoded, err)
			}
		}
	})
}

// Every number of a ScaledJob must fit the type that clients decode it into. Kubernetes 1.34 does not look at its
// format.
func TestNumbersAreBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ours, theirs := properties(g)
	for _, found := range slices.Concat(ours, theirs) {
		schema := found.schema
		switch {
		case schema.XIntOrString, schema.Format == "int32":
			g.Expect(schema.Minimum).To(HaveValue(BeNumerically(">=", -1<<31)), found.path)
			g.Expect(schema.Maximum).To(HaveValue(BeNumerically("<=", 1<<31-1)), found.path)
		case schema.Type == "integer":
			g.Expect(schema.Format).To(BeElementOf("int32", "int64"), found.path)
		default:
			g.Expect(schema.Type).NotTo(Equal("number"), found.path)
		}
	}
}

// The types of this module are those of the manifest.
func TestGroupVersionKind(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	crd, _ := definition(g)
	g.Expect(crd.Spec.Group).To(Equal(scaledjobv1.GroupVersion.Group))
	g.Expect(crd.Spec.Names.Kind).To(Equal("ScaledJob"))
	g.Expect(crd.Spec.Scope).To(Equal(apiextensionsv1.NamespaceScoped))
	g.Expect(crd.Spec.Versions[0]).To(And(
		HaveField("Name", scaledjobv1.GroupVersion.Version), HaveField("Served", true), HaveField("Storage", true),
	))
}

// inItems are the properties in the items of lists that have a default.
func inItems(all []property) (found []string) {
	for _, each := range all {
		if strings.Contains(each.path, "[]") && each.schema.Default != nil {
			found = append(found, each.path)
		}
	}
	return found
}

// Only lists whose keys are unique in every Job have keys. testdata/templates.yaml has each of them with a key twice.
func TestListsWithKeys(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, theirs := properties(g)
	found := map[string]bool{}
	for _, each := range theirs {
		if each.schema.XListType != nil && *each.schema.XListType != "atomic" {
			found[each.path[strings.LastIndex(each.path, ".")+1:]] = true
		}
	}
	g.Expect(slices.Sorted(maps.Keys(found))).To(Equal([]string{
		"containers", "initContainers", "topologySpreadConstraints", "volumeDevices", "volumeMounts", "volumes",
	}))
}

// Whoever applies a list server-side replaces it as a whole, and would find the defaults different from the manifest.
func TestItemsOfListsHaveNoDefaults(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ours, theirs := properties(g)
	g.Expect(inItems(slices.Concat(ours, theirs))).To(BeEmpty())

	// A schema with one shows that it would be found.
	item := apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"type": {Default: &apiextensionsv1.JSON{Raw: []byte(`"List"`)}},
	}}
	list := apiextensionsv1.JSONSchemaProps{Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
	schema := apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"queues": list}}
	g.Expect(inItems(below("", &schema))).To(Equal([]string{".queues[].type"}))
}
