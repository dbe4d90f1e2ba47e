// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"go.yaml.in/yaml/v3"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/layout"
)

const (
	// commentWidth is the number of columns of a comment.
	commentWidth = 100
	indent       = 2
)

// write returns the manifest, with this template of KEDA's Jobs.
func (c *conversion) write(template *yaml.Node) (string, error) {
	spec, err := nodeOf(c.to)
	if err != nil {
		return "", err
	}
	job := mapping()
	if metadata := c.jobMetadata(); len(metadata.Content) > 0 {
		add(job, "metadata", metadata)
		c.comment("jobTemplate.metadata", "KEDA copies the labels and annotations of the ScaledJob to the Jobs. Here they are those of the template.")
	}
	add(job, "spec", template)
	replace(spec, "jobTemplate", job)
	for _, path := range slices.Sorted(maps.Keys(c.comments)) {
		annotate(spec, path, c.comments[path])
	}
	root := mapping()
	add(root, "apiVersion", text(scaledjobv1.GroupVersion.String()))
	add(root, "kind", text(kindScaledJob))
	add(root, "metadata", c.metadata())
	add(root, "spec", spec)
	document := &yaml.Node{Kind: yaml.DocumentNode, HeadComment: c.heading(), Content: []*yaml.Node{root}}
	return encode(document)
}

func encode(document *yaml.Node) (string, error) {
	var buffer bytes.Buffer
	encoder := yaml.NewEncoder(&buffer)
	encoder.SetIndent(indent)
	encoder.CompactSeqIndent()
	if err := errors.Join(encoder.Encode(document), encoder.Close()); err != nil {
		return "", fmt.Errorf("encoding the manifest: %w", err)
	}
	return buffer.String(), nil
}

// heading says where the manifest comes from, and what is not in it.
func (c *conversion) heading() string {
	lines := []string{comment("Converted from KEDA's ScaledJob " + title(c.object.Namespace, c.object.Name) + ".")}
	if len(c.unmapped) > 0 {
		lines = append(lines, "#", "# Not converted:")
	}
	for _, each := range c.unmapped {
		lines = append(lines, strings.ReplaceAll(comment("- "+each.Field+": "+each.Text), "\n# ", "\n#   "))
	}
	return strings.Join(lines, "\n") + "\n"
}

// comment returns a text as the lines of a comment, which nothing in it can end.
func comment(text string) string {
	text = layout.Printable(layout.OneLine(text))
	return "# " + strings.ReplaceAll(ansi.Wordwrap(text, commentWidth, ""), "\n", "\n# ")
}

// metadata returns the metadata of the ScaledJob.
func (c *conversion) metadata() *yaml.Node {
	metadata := mapping()
	add(metadata, "name", text(c.object.Name))
	if c.object.Namespace != "" {
		add(metadata, "namespace", text(c.object.Namespace))
	}
	addTexts(metadata, "labels", c.from.Metadata.Labels, isOfTool)
	addTexts(metadata, "annotations", c.from.Metadata.Annotations, isOfTool)
	return metadata
}

// jobMetadata returns the labels and annotations that KEDA gives the Jobs.
func (c *conversion) jobMetadata() *yaml.Node {
	excluded := strings.Split(c.from.Metadata.Annotations[annotationExcluded], ",")
	metadata := mapping()
	addTexts(metadata, "labels", c.from.Metadata.Labels, func(key string) bool {
		return isOfTool(key) || isOfGitOps(key) || slices.Contains(excluded, key)
	})
	addTexts(metadata, "annotations", c.from.Metadata.Annotations, func(key string) bool { return isOfTool(key) || isOfGitOps(key) })
	return metadata
}

// isOfTool reports whether a label or annotation is one of KEDA or of kubectl, or one that only the operator may set.
func isOfTool(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return prefix == kedaGroup || strings.HasSuffix(prefix, "."+kedaGroup) || prefix == "kubectl.kubernetes.io" ||
		strings.HasPrefix(key, scaledjobv1.KeyPrefix)
}

// isOfGitOps reports whether a label or annotation says which tool manages the object. On a Job it would say the same.
func isOfGitOps(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	for _, domain := range []string{"argoproj.io", "helm.sh", "fluxcd.io"} {
		if prefix == domain || strings.HasSuffix(prefix, "."+domain) {
			return true
		}
	}
	return key == scaledjobv1.LabelManagedBy
}

// addTexts adds a mapping with the texts whose keys are not left out, if there are any.
func addTexts(to *yaml.Node, key string, texts map[string]string, leaveOut func(string) bool) {
	values := mapping()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if !leaveOut(name) {
			add(values, name, text(texts[name]))
		}
	}
	if len(values.Content) > 0 {
		add(to, key, values)
	}
}

// nodeOf returns a value of the API as YAML, with its fields in the order of the type.
func nodeOf(value any) (*yaml.Node, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding the spec: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(encoded, &document); err != nil {
		return nil, fmt.Errorf("encoding the spec: %w", err)
	}
	restyle(document.Content[0])
	return document.Content[0], nil
}

// restyle replaces the style of JSON by that of manifests.
func restyle(node *yaml.Node) {
	node.Style = 0
	if node.Kind == yaml.ScalarNode && node.Tag == "!!str" {
		node.Style = styleOf(node.Value)
	}
	for _, each := range node.Content {
		restyle(each)
	}
}

var (
	// plainText needs no quotes in YAML, unless it is one of words, which YAML 1.1 reads as other values.
	plainText = regexp.MustCompile(`^[A-Za-z_]([A-Za-z0-9_./:-]*[A-Za-z0-9])?$`)
	words     = []string{"y", "yes", "n", "no", "on", "off", "true", "false", "null"}
)

func styleOf(value string) yaml.Style {
	if !plainText.MatchString(value) || slices.Contains(words, strings.ToLower(value)) {
		return yaml.DoubleQuotedStyle
	}
	return 0
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

func text(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Style: styleOf(value)}
}

func add(to *yaml.Node, key string, value *yaml.Node) {
	to.Content = append(to.Content, text(key), value)
}

// replace sets the value of a key, which is there.
func replace(in *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(in.Content); i += 2 {
		if in.Content[i].Value == key {
			in.Content[i+1] = value
		}
	}
}

// annotate adds comments above a field. If it is not there, they are above the field that would have it.
func annotate(spec *yaml.Node, path string, comments []string) {
	var at *yaml.Node
	node := spec
	for _, part := range splitPath(path) {
		key, value := fieldOf(node, part)
		if key == nil {
			break
		}
		at, node = key, value
	}
	if at == nil {
		return
	}
	for _, each := range comments {
		if at.HeadComment != "" {
			at.HeadComment += "\n"
		}
		at.HeadComment += comment(each)
	}
}

// fieldOf returns the node that comments of a field, or of an item of a sequence, are at, and its value; nil if there
// is no such field.
func fieldOf(node *yaml.Node, part string) (at, value *yaml.Node) {
	if i, err := strconv.Atoi(part); err == nil {
		if node.Kind != yaml.SequenceNode || i >= len(node.Content) {
			return nil, nil
		}
		return node.Content[i], node.Content[i]
	}
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == part {
			return node.Content[i], node.Content[i+1]
		}
	}
	return nil, nil
}

// splitPath splits a path such as queues[0].name into queues, 0 and name.
func splitPath(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

// why says on one line what is wrong with YAML.
func why(err error) string { return layout.OneLine(strings.TrimPrefix(err.Error(), "yaml: ")) }
