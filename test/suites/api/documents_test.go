// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// example is a YAML block of a document.
var example = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// exampleObject is the ScaledJob that an example shows as a whole, or the valid one with the fields of its spec that
// the example shows. It is nil if the example is of another kind.
func exampleObject(g Gomega, text string) *unstructured.Unstructured {
	var shown unstructured.Unstructured
	g.Expect(yaml.Unmarshal([]byte(text), &shown.Object)).To(Succeed())
	switch {
	case shown.GetAPIVersion() == "batch.miracle.dev/v1":
		shown.SetNamespace("default")
		return &shown
	case shown.GetAPIVersion() != "":
		return nil
	}
	if strings.Contains(text, "queues:") {
		text += "queueName: null\n"
	}
	if strings.Contains(text, "redis:\n") {
		text += "redisAddress: null\n"
	}
	return specified(g, text)
}

// Whoever copies an example must not have to mend it.
func TestExamplesOfDocumentsAccepted(t *testing.T) {
	t.Parallel()
	for _, document := range []string{"README.md", "docs/queues.md", "docs/redis.md", "docs/keda-migration.md"} {
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			api := newClient(g)
			content, err := os.ReadFile("../../../" + document)
			g.Expect(err).NotTo(HaveOccurred())
			tried := 0
			for _, block := range example.FindAllStringSubmatch(string(content), -1) {
				if object := exampleObject(g, block[1]); object != nil {
					g.Expect(try(t.Context(), api, object)).To(Succeed(), block[1])
					tried++
				}
			}
			g.Expect(tried).To(BeNumerically(">", 0))
		})
	}
}
