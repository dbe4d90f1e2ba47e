// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command trimcrd changes the schemas in a generated CRD file, in place: mostly that of spec.jobTemplate, so that the
// CRD accepts what the API server accepts as a Job, and is small enough.
//
// Of that schema it leaves what says which fields there are and which types they have. What else a Job must fulfil is
// up to the API server, depends on its version and its features, and is found by a dry run. So trimcrd removes
//
//   - descriptions. With them, the CRD exceeds the 262,144 bytes that the annotation of kubectl's client-side apply can
//     hold. The fields of the ScaledJob itself keep theirs.
//   - defaults, which are all in the items of lists. A tool that applies a list server-side replaces it as a whole, and
//     would find these defaults different from the manifest at each comparison. The API server sets them in each Job
//     instead.
//   - the keys of most lists. In a Job they are a hint for clients, and most lists may have the same key twice. In a
//     custom resource, the API server refuses that.
//
// It adds the fields of embedded metadata that the generator leaves out. It allows null wherever a Job may have it, and
// fractions as resource quantities.
//
// It restricts numbers, strings and times to those that clients can decode. The API server would store other values,
// and a single ScaledJob with such a value would prevent all clients from listing ScaledJobs.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"

	"sigs.k8s.io/yaml"
)

var (
	// structural are the keywords of a schema that say which fields there are and which types they have.
	structural = []string{
		"type", "format", "properties", "items", "additionalProperties", "anyOf", "x-kubernetes-int-or-string",
		"x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
		"x-kubernetes-preserve-unknown-fields",
	}
	// mandatory are the fields that no Job can do without, and that the rules of jobTemplate read.
	mandatory = []string{"spec", "template", "containers"}
	// merging are the lists that the API server accepts in a Job only with unique keys.
	merging = []string{
		"containers", "initContainers", "topologySpreadConstraints", "volumeDevices", "volumeMounts", "volumes",
	}
)

const (
	maxBytes = 262144
	header   = "---\n"

	// timePattern is the pattern of a time. The format date-time also allows a lowercase t and z.
	timePattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`
	// quantity is the schema of a resource quantity: a number, or a string with this pattern. No other schema allows both
	// fractions and strings. The generated pattern also allows exponents with a fraction, which are not valid, and
	// exponents of any length: decoding 1e-99999999 takes minutes of processor time.
	quantity = `
x-kubernetes-preserve-unknown-fields: true
pattern: ^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$
maxItems: 0
maxProperties: 0
not: {enum: [true, false, [], {}]}
`
	// metadata are the fields of metadata that the generator leaves out. Many tools write them.
	metadata = `
creationTimestamp: {type: string, format: date-time}
deletionGracePeriodSeconds: {type: integer, format: int64}
deletionTimestamp: {type: string, format: date-time}
generateName: {type: string}
generation: {type: integer, format: int64}
managedFields:
  type: array
  items:
    type: object
    properties:
      apiVersion: {type: string}
      fieldsType: {type: string}
      fieldsV1: {x-kubernetes-preserve-unknown-fields: true}
      manager: {type: string}
      operation: {type: string}
      subresource: {type: string}
      time: {type: string, format: date-time}
ownerReferences:
  type: array
  items:
    type: object
    properties:
      apiVersion: {type: string}
      blockOwnerDeletion: {type: boolean}
      controller: {type: boolean}
      kind: {type: string}
      name: {type: string}
      uid: {type: string}
resourceVersion: {type: string}
selfLink: {type: string}
uid: {type: string}
`
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: trimcrd FILE")
		os.Exit(2)
	}
	if err := trimFile(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "trimcrd:", err)
		os.Exit(1)
	}
}

func trimFile(path string) error {
	in, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(in, &crd); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	adaptTemplates(crd)
	boundNumbers(crd)
	size, err := json.Marshal(crd)
	if err != nil {
		return err
	}
	if len(size) >= maxBytes {
		return fmt.Errorf("%s has %d bytes as JSON; kubectl apply takes less than %d", path, len(size), maxBytes)
	}
	out, err := yaml.Marshal(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte(header), out...), 0o644)
}

// adaptTemplates finds each jobTemplate below node and changes the schemas in it.
func adaptTemplates(node any) {
	switch node := node.(type) {
	case map[string]any:
		for key, child := range node {
			if template, ok := child.(map[string]any); ok && key == "jobTemplate" {
				adaptFields(template)
				continue
			}
			adaptTemplates(child)
		}
	case []any:
		for _, child := range node {
			adaptTemplates(child)
		}
	}
}

// adaptFields changes the schemas of the fields of an object.
func adaptFields(object map[string]any) {
	fields, _ := object["properties"].(map[string]any)
	for name, field := range fields {
		schema := field.(map[string]any)
		adapt(name, schema)
		if slices.Contains(mandatory, name) {
			object["required"] = []any{name}
		} else {
			schema["nullable"] = true
		}
	}
}

// adapt changes the schema of a field with this name, and those below it.
func adapt(name string, schema map[string]any) {
	_, hasPattern := schema["pattern"]
	maps.DeleteFunc(schema, func(keyword string, _ any) bool { return !slices.Contains(structural, keyword) })
	switch {
	case schema["x-kubernetes-int-or-string"] == true && hasPattern:
		clear(schema)
		addTo(schema, quantity)
	case schema["format"] == "date-time":
		schema["pattern"] = timePattern
	case schema["type"] == "array":
		adaptList(name, schema)
	case schema["additionalProperties"] != nil:
		values := schema["additionalProperties"].(map[string]any)
		adapt("", values)
		values["nullable"] = true
	case name == "metadata":
		addTo(schema["properties"].(map[string]any), metadata)
		adaptFields(schema)
	default:
		adaptFields(schema)
	}
}

// adaptList changes the schema of a list. Keys must be required.
func adaptList(name string, list map[string]any) {
	items := list["items"].(map[string]any)
	adapt("", items)
	if slices.Contains(mandatory, name) {
		list["minItems"] = 1
	}
	if slices.Contains(merging, name) {
		items["required"] = list["x-kubernetes-list-map-keys"]
		for _, key := range items["required"].([]any) {
			delete(items["properties"].(map[string]any)[key.(string)].(map[string]any), "nullable")
		}
		return
	}
	delete(list, "x-kubernetes-list-map-keys")
	list["x-kubernetes-list-type"] = "atomic"
	items["nullable"] = true
}

// boundNumbers restricts each number of 32 bits below node that has no bounds. Kubernetes 1.34 does not look at the
// format of a number.
func boundNumbers(node any) {
	switch node := node.(type) {
	case map[string]any:
		if node["format"] == "int32" || node["x-kubernetes-int-or-string"] == true {
			for bound, value := range map[string]int{"minimum": math.MinInt32, "maximum": math.MaxInt32} {
				if _, found := node[bound]; !found {
					node[bound] = value
				}
			}
		}
		for _, child := range node {
			boundNumbers(child)
		}
	case []any:
		for _, child := range node {
			boundNumbers(child)
		}
	}
}

// addTo adds what is written in YAML to node.
func addTo(node map[string]any, text string) {
	if err := yaml.Unmarshal([]byte(text), &node); err != nil {
		panic(err) // The text is a constant.
	}
}
