// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// setScalars replaces texts in a YAML document and leaves everything else, comments too, byte by byte as it is. The
// keys are paths, such as image.repository. Each must be there with a text on the same line.
func setScalars(document []byte, values map[string]string) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return nil, err
	}
	found, err := findAll(&root, slices.Sorted(maps.Keys(values)))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(document), "\n")
	// The last one first: a replacement moves what follows it on its line.
	for _, scalar := range slices.Backward(found) {
		line := &lines[scalar.node.Line-1]
		before, rest := (*line)[:scalar.node.Column-1], (*line)[scalar.node.Column-1:]
		old := text(scalar.node, rest)
		if old == "" {
			return nil, fmt.Errorf("%s is not a text on one line", scalar.key)
		}
		*line = before + strconv.Quote(values[scalar.key]) + strings.TrimPrefix(rest, old)
	}
	return []byte(strings.Join(lines, "\n")), nil
}

// scalar is a value in a document.
type scalar struct {
	key  string
	node *yaml.Node
}

// findAll returns the values at the paths, in the order in which they are in the document.
func findAll(root *yaml.Node, keys []string) ([]scalar, error) {
	var found []scalar
	for _, key := range keys {
		node := find(root, strings.Split(key, "."))
		if node == nil {
			return nil, fmt.Errorf("it has no %s", key)
		}
		found = append(found, scalar{key, node})
	}
	slices.SortFunc(found, func(a, b scalar) int {
		return cmp.Or(cmp.Compare(a.node.Line, b.node.Line), cmp.Compare(a.node.Column, b.node.Column))
	})
	return found, nil
}

// find returns the value at a path of keys, or nil.
func find(node *yaml.Node, path []string) *yaml.Node {
	switch {
	case node.Kind == yaml.DocumentNode:
		return find(node.Content[0], path)
	case len(path) == 0:
		return node
	case node.Kind != yaml.MappingNode:
		return nil
	}
	for n := 0; n < len(node.Content); n += 2 {
		if node.Content[n].Value == path[0] {
			return find(node.Content[n+1], path[1:])
		}
	}
	return nil
}

// text returns the characters that stand for a scalar at the beginning of the rest of its line, or nothing if they are
// not those of a plain or a simply quoted text.
func text(node *yaml.Node, rest string) string {
	written := node.Value
	switch node.Style {
	case yaml.DoubleQuotedStyle:
		written = `"` + node.Value + `"`
	case yaml.SingleQuotedStyle:
		written = `'` + node.Value + `'`
	}
	if node.Kind != yaml.ScalarNode || node.Tag == "!!null" || !strings.HasPrefix(rest, written) {
		return ""
	}
	return written
}
