// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command trimcrd removes the descriptions below spec.jobTemplate from a generated CRD, in place. With them the CRD is larger than the
// 262,144 bytes that kubectl's client-side apply can store in its annotation; our own fields keep theirs.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

const (
	maxBytes = 262144
	header   = "---\n"
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
	trimTemplates(crd)
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

// trimTemplates looks for every jobTemplate below node and removes the descriptions inside it, not its own.
func trimTemplates(node any) {
	switch node := node.(type) {
	case map[string]any:
		for key, child := range node {
			if template, ok := child.(map[string]any); ok && key == "jobTemplate" {
				removeDescriptions(template["properties"])
				continue
			}
			trimTemplates(child)
		}
	case []any:
		for _, child := range node {
			trimTemplates(child)
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
