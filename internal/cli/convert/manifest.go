// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxNodes is the number of values up to which an object is taken, with those that its aliases repeat: a short document
// can stand for one that fills the memory.
const maxNodes = 100_000

// Object is an object of a manifest.
type Object struct {
	// APIVersion, Kind, Namespace and Name are those of the object. Namespace may be empty.
	APIVersion, Kind, Namespace, Name string
	// Source is where the object comes from, such as a file and a line.
	Source string

	node *yaml.Node
}

// Group is the API group of the object; empty for the core group.
func (o *Object) Group() string {
	group, _, found := strings.Cut(o.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// String names the object as kubectl does.
func (o *Object) String() string { return o.Kind + " " + title(o.Namespace, o.Name) }

// YAML returns the object as YAML, without aliases.
func (o *Object) YAML() ([]byte, error) { return yaml.Marshal(o.node) }

// title is a name with its namespace, if that is known.
func title(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// Parse reads the objects of a manifest in YAML or JSON, of one or several documents, in their order. Those of a List
// are returned one by one. source is the name of the manifest in errors.
func Parse(source string, manifest []byte) ([]Object, error) {
	var objects []Object
	decoder := yaml.NewDecoder(bytes.NewReader(manifest))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not valid YAML: %s", source, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if len(document.Content) == 0 || document.Content[0].Tag == "!!null" {
			continue // Only comments.
		}
		found, err := objectsOf(source, document.Content[0])
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
}

func objectsOf(source string, node *yaml.Node) ([]Object, error) {
	where := fmt.Sprintf("%s:%d", source, node.Line)
	budget := maxNodes
	node, err := expand(node, &budget)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	var head struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Metadata   struct {
			Name      string `yaml:"name"`
			Namespace string `yaml:"namespace"`
		} `yaml:"metadata"`
		Items []yaml.Node `yaml:"items"`
	}
	if err := node.Decode(&head); err != nil || head.Kind == "" || head.APIVersion == "" {
		return nil, fmt.Errorf("%s is not an object of Kubernetes: it needs apiVersion, kind and metadata", where)
	}
	if !strings.HasSuffix(head.Kind, "List") || child(node, "items") == nil {
		return []Object{{
			APIVersion: head.APIVersion, Kind: head.Kind, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name,
			Source: where, node: node,
		}}, nil
	}
	var objects []Object
	for i := range head.Items {
		found, err := objectsOf(source, &head.Items[i])
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// expand returns a copy of the node in which what aliases stand for is repeated, without anchors. It lowers the budget
// by the number of values, and returns an error if that is used up.
func expand(node *yaml.Node, budget *int) (*yaml.Node, error) {
	if node.Kind == yaml.AliasNode {
		return expand(node.Alias, budget)
	}
	if *budget--; *budget < 0 {
		return nil, fmt.Errorf("the object has more than %d values", maxNodes)
	}
	copied := *node
	copied.Anchor, copied.Content = "", nil
	for _, each := range node.Content {
		below, err := expand(each, budget)
		if err != nil {
			return nil, err
		}
		copied.Content = append(copied.Content, below)
	}
	return &copied, nil
}

// child returns the value of a key of a mapping, or of the mappings below it; nil if there is none.
func child(node *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if node = valueOf(node, key); node == nil {
			return nil
		}
	}
	return node
}

func valueOf(node *yaml.Node, key string) *yaml.Node {
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// keysOf returns the keys of a mapping, in their order.
func keysOf(node *yaml.Node) []string {
	var keys []string
	for i := 0; node != nil && node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		keys = append(keys, node.Content[i].Value)
	}
	return keys
}
