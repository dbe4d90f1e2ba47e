// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package examples finds the ScaledJobs that users are shown: those of config/samples, and those of the documents.
package examples

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/manifests"
)

// Documents are the documents with examples, below the root of the source.
var Documents = []string{
	"README.md",
	"docs/how-to/choose-a-strategy.md",
	"docs/how-to/gitops.md",
	"docs/how-to/kueue.md",
	"docs/how-to/migrate-from-keda.md",
	"docs/how-to/queues.md",
	"docs/how-to/redis-cluster.md",
	"docs/how-to/redis-sentinel.md",
	"docs/how-to/redis.md",
	"docs/how-to/roll-out-a-template.md",
	"docs/tutorials/first-scaledjob.md", "docs/tutorials/bullmq.md", "docs/tutorials/write-a-reliable-worker.md",
}

const apiVersion = "batch.miracle.dev/v1"

// base is a small ScaledJob, for examples that show only fields of the spec.
const base = `
apiVersion: batch.miracle.dev/v1
kind: ScaledJob
metadata: {name: example}
spec:
  queueName: emails
  redisAddress: redis:6379
  threshold: 10
  jobTemplate: {spec: {template: {spec: {containers: [{name: worker, image: "worker:1"}]}}}}
`

// Samples returns the ScaledJobs of config/samples below the root of the source.
func Samples(root string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(root, "config", "samples", "*.yaml"))
	if err != nil {
		return nil, err
	}
	var found []*unstructured.Unstructured
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		objects, err := scaledJobs(string(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		found = append(found, objects...)
	}
	return found, nil
}

// scaledJobs returns those of a manifest.
func scaledJobs(manifest string) ([]*unstructured.Unstructured, error) {
	objects, err := manifests.Parse(manifest)
	return slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool { return object.GetAPIVersion() != apiVersion }), err
}

// block is a YAML block of a document.
var block = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// OfDocument returns the ScaledJobs that a document below the root of the source shows: whole ones, and small ones with
// the fields of the spec that it shows.
func OfDocument(root, document string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		return nil, err
	}
	var found []*unstructured.Unstructured
	for _, shown := range block.FindAllStringSubmatch(string(content), -1) {
		object, err := ofBlock(shown[1])
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", document, err, shown[1])
		}
		if object != nil {
			found = append(found, object)
		}
	}
	return found, nil
}

// ofBlock returns the ScaledJob of an example, or nil if it is of another kind.
func ofBlock(text string) (*unstructured.Unstructured, error) {
	shown, err := parse(text)
	if err != nil || shown.GetAPIVersion() == apiVersion {
		return shown, err
	}
	if shown.GetAPIVersion() != "" {
		return nil, nil
	}
	whole, err := parse(base)
	if err != nil {
		return nil, err
	}
	spec := whole.Object["spec"].(map[string]any)
	for field, instead := range map[string]string{"queues": "queueName", "redis": "redisAddress"} {
		if _, is := shown.Object[field]; is {
			delete(spec, instead)
		}
	}
	maps.Copy(spec, shown.Object)
	return whole, nil
}

func parse(text string) (*unstructured.Unstructured, error) {
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	return object, json.Unmarshal(encoded, &object.Object)
}
