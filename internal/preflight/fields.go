// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package preflight finds out at startup whether the CRD in the cluster has the fields that the operator knows.
package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// maxDocumentBytes is the size up to which an OpenAPI document is read. That of ScaledJobs has less than 1 MiB.
const maxDocumentBytes = 8 << 20

// ErrNotPublished means that the document has no schema of ScaledJobs. The API server publishes it some moments after
// it begins to serve them.
var ErrNotPublished = errors.New("the API server publishes no schema of ScaledJobs")

// Fields is what the CRD in the cluster and the types of this operator do not have in common. Nothing below a type of
// Kubernetes, such as the template of the Jobs, is compared.
type Fields struct {
	// Missing are the fields that the CRD lacks, because it is older than the operator. A field that does not allow a
	// value that the operator writes counts too.
	Missing []string
	// Unknown are the fields of the spec that the operator does not know, because the CRD is newer.
	Unknown []string
}

// node is a schema of an OpenAPI document, as far as it names fields.
type node struct {
	Properties map[string]*node          `json:"properties"`
	Items      *node                     `json:"items"`
	Enum       []any                     `json:"enum"`
	Preserves  bool                      `json:"x-kubernetes-preserve-unknown-fields"`
	Kinds      []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// ReadSchemas reads the OpenAPI v3 document of the group of ScaledJobs. Every client that has signed in may read it.
// It returns an error if the document is too large to be one.
func ReadSchemas(ctx context.Context, client rest.Interface) ([]byte, error) {
	stream, err := client.Get().
		AbsPath("/openapi/v3/apis", scaledjobv1.GroupVersion.Group, scaledjobv1.GroupVersion.Version).
		SetHeader("Accept", "application/json").
		Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document of %s: %w", scaledjobv1.GroupVersion, err)
	}
	defer func() { _ = stream.Close() }() // It was only read.
	document, err := io.ReadAll(io.LimitReader(stream, maxDocumentBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document of %s: %w", scaledjobv1.GroupVersion, err)
	}
	if len(document) > maxDocumentBytes {
		return nil, fmt.Errorf("the OpenAPI document of %s is larger than %d MiB",
			scaledjobv1.GroupVersion, maxDocumentBytes>>20)
	}
	return document, nil
}

// CompareFields compares the fields of the types of this operator with those in an OpenAPI v3 document. Fields below a
// schema that preserves unknown fields are there by definition.
func CompareFields(document []byte) (Fields, error) {
	served, err := schemaOf(document)
	if err != nil || served.Preserves {
		return Fields{}, err
	}
	var spec, status Fields
	spec.compare("spec", reflect.TypeFor[scaledjobv1.ScaledJobSpec](), served.Properties["spec"])
	status.compare("status", reflect.TypeFor[scaledjobv1.ScaledJobStatus](), served.Properties["status"])
	missing := slices.Concat(spec.Missing, status.Missing)
	if !served.allows(string(scaledjobv1.ModeTracking), "status", "mode") {
		missing = append(missing, "status.mode="+string(scaledjobv1.ModeTracking))
	}
	return Fields{Missing: missing, Unknown: spec.Unknown}, nil
}

// allows reports whether the field at this path, if there is one, allows a value.
func (n *node) allows(value string, path ...string) bool {
	for _, name := range path {
		if n = n.Properties[name]; n == nil {
			return true
		}
	}
	return len(n.Enum) == 0 || slices.Contains(n.Enum, any(value))
}

// schemaOf returns the schema of ScaledJobs in an OpenAPI v3 document.
func schemaOf(document []byte) (*node, error) {
	var parsed struct {
		Components struct {
			Schemas map[string]*node `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &parsed); err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document of %s: %w", scaledjobv1.GroupVersion, err)
	}
	for _, found := range parsed.Components.Schemas {
		if found != nil && slices.Contains(found.Kinds, scaledjobv1.GroupVersion.WithKind("ScaledJob")) {
			return found, nil
		}
	}
	return nil, ErrNotPublished
}

// compare compares a type with its schema. Of fields inside each other it notes the outermost.
func (f *Fields) compare(path string, known reflect.Type, served *node) {
	if served == nil {
		f.Missing = append(f.Missing, path)
		return
	}
	for ; known.Kind() == reflect.Pointer || known.Kind() == reflect.Slice; known = known.Elem() {
		if known.Kind() == reflect.Slice && served != nil {
			path, served = path+"[]", served.Items
		}
	}
	if served == nil || served.Preserves || !isOurs(known) {
		return
	}
	unknown := maps.Clone(served.Properties)
	for _, field := range reflect.VisibleFields(known) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		delete(unknown, name)
		f.compare(path+"."+name, field.Type, served.Properties[name])
	}
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		f.Unknown = append(f.Unknown, path+"."+name)
	}
}

// isOurs reports whether a type is a struct of our API, and not of that of Kubernetes.
func isOurs(of reflect.Type) bool {
	return of.Kind() == reflect.Struct && of.PkgPath() == reflect.TypeFor[scaledjobv1.ScaledJob]().PkgPath()
}
