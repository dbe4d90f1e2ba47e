// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command trimcrd adapts what a generated CRD says about spec.jobTemplate, in place.
//
// It removes the descriptions. With them the CRD is larger than the 262,144 bytes that kubectl's client-side apply can store in its
// annotation; our own fields keep theirs.
//
// It bounds the values that may be a number or a string to those that clients can decode. The API server stores the others without
// trying, and a single ScaledJob with such a value would keep every client, the operator first, from listing any.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"

	"sigs.k8s.io/yaml"
)

const (
	maxBytes = 262144
	header   = "---\n"

	// quantity is the pattern of a resource quantity. The generated one takes exponents with a fraction, which is no quantity, and of any
	// length: decoding 1e-99999999 keeps a processor busy for minutes.
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

// adaptTemplates looks for every jobTemplate below node, removes the descriptions inside it, not its own, and bounds its values.
func adaptTemplates(node any) {
	switch node := node.(type) {
	case map[string]any:
		for key, child := range node {
			if template, ok := child.(map[string]any); ok && key == "jobTemplate" {
				removeDescriptions(template["properties"])
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

// removeDescriptions removes every description below node. A property that is itself called description is a map and stays.
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

// boundValues bounds every schema below node that takes a number or a string.
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
