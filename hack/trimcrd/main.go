// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command trimcrd changes the schema of spec.jobTemplate in a generated CRD file, in place.
//
// It removes the descriptions in it. With them, the CRD exceeds the 262,144 bytes that the annotation of kubectl's
// client-side apply can hold. The fields of the ScaledJob itself keep their descriptions.
//
// It removes the defaults in it, which are all in the items of lists. A tool that applies a list server-side replaces it
// as a whole, and would find these defaults different from the manifest for ever. The API server sets them in each Job
// instead.
//
// It also restricts the values that may be a number or a string to those that clients can decode. The API server would
// store other values, and a single ScaledJob with such a value would prevent all clients, including the operator, from
// listing ScaledJobs.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"

	"sigs.k8s.io/yaml"
)

const (
	maxBytes = 262144
	header   = "---\n"

	// quantity is the pattern of a resource quantity. The generated pattern also allows exponents with a fraction,
	// which are not valid, and exponents of any length: decoding 1e-99999999 takes minutes of processor time.
	quantity = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$`
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

// adaptTemplates finds each jobTemplate below node, removes the descriptions and defaults of its properties, and
// restricts their values.
func adaptTemplates(node any) {
	switch node := node.(type) {
	case map[string]any:
		for key, child := range node {
			if template, ok := child.(map[string]any); ok && key == "jobTemplate" {
				removeDescriptions(template["properties"])
				removeDefaults(template["properties"])
				boundValues(template["properties"])
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

// removeDescriptions removes all descriptions below node. It keeps properties with the name description, which are
// maps.
func removeDescriptions(node any) {
	switch node := node.(type) {
	case map[string]any:
		if _, isText := node["description"].(string); isText {
			delete(node, "description")
		}
		for _, child := range node {
			removeDescriptions(child)
		}
	case []any:
		for _, child := range node {
			removeDescriptions(child)
		}
	}
}

// removeDefaults removes all defaults below node. A key of a list of type map must be required or have a default, so a
// list that has lost the default of a key, such as the protocol of a port, becomes atomic: it is applied as a whole.
func removeDefaults(node any) {
	switch node := node.(type) {
	case map[string]any:
		if keys, isMap := node["x-kubernetes-list-map-keys"].([]any); isMap && hasDefault(node["items"], keys) {
			delete(node, "x-kubernetes-list-map-keys")
			node["x-kubernetes-list-type"] = "atomic"
		}
		if _, isSchema := node["type"].(string); isSchema {
			delete(node, "default")
		}
		for _, child := range node {
			removeDefaults(child)
		}
	case []any:
		for _, child := range node {
			removeDefaults(child)
		}
	}
}

// hasDefault reports whether one of these properties of an object has a default.
func hasDefault(schema any, names []any) bool {
	properties, _ := schema.(map[string]any)["properties"].(map[string]any)
	return slices.ContainsFunc(names, func(name any) bool {
		property, _ := properties[name.(string)].(map[string]any)
		_, found := property["default"]
		return found
	})
}

// boundValues restricts each schema below node that allows a number or a string.
func boundValues(node any) {
	switch node := node.(type) {
	case map[string]any:
		if node["x-kubernetes-int-or-string"] == true {
			bound(node)
		}
		for _, child := range node {
			boundValues(child)
		}
	case []any:
		for _, child := range node {
			boundValues(child)
		}
	}
}

func bound(schema map[string]any) {
	if _, isQuantity := schema["pattern"]; isQuantity {
		schema["pattern"] = quantity
		return
	}
	schema["minimum"], schema["maximum"] = math.MinInt32, math.MaxInt32
}
