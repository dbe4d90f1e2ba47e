// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

const definition = `
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size, priority: 1, description: How large it is}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: spec is what is wanted.
            required: [size]
            x-kubernetes-validations: [{rule: "true", message: color and size must match}]
            properties:
              color: {type: string, enum: [Red, Blue], description: "color is Red (default) or Blue."}
              size: {type: integer, minimum: 1, maximum: 2147483647, description: "size is the size. At least 1."}
              weight: {type: integer, default: 3, maximum: 9, description: weight says how heavy it is. Default 3.}
              first: {type: object, description: first is the first part., properties: &part {
                name: {type: string, maxLength: 5, pattern: "^a", description: name names it.}}}
              second: {type: object, description: second is the second part., properties: *part}
          status:
            type: object
            description: status is what is.
`

func TestThePageOfADefinition(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	text := must.Get(page([]byte(definition)))(g)
	g.Expect(text).To(ContainSubstring("## spec\n\nWhat is wanted.\n\n" +
		"- **`size`** (integer, required, at least 1)\\\n  The size.\n" +
		"- **`color`** (one of `Red`, `Blue`, default `Red`)\\\n  Red (default) or Blue.\n" +
		"- **`first`** (object with the fields of [spec.first](#specfirst))\\\n  The first part.\n" +
		"- **`second`** (object with the fields of [spec.first](#specfirst))\\\n  The second part.\n" +
		"- **`weight`** (integer, at most 9, default `3`)\\\n  Says how heavy it is.\n\n" +
		"The API server also checks:\n\n- color and size must match\n\n" +
		"## spec.first\n\nThe first part.\n\n" +
		"- **`name`** (string, at most 5 characters)\\\n  Names it.\n  - must match `^a`\n"))
	g.Expect(text).NotTo(ContainSubstring("## spec.second"))
	g.Expect(text).To(HaveSuffix("| `SIZE` | yes | How large it is |\n"))
}

func TestLinesAreWrappedBetweenWords(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	word := "0123456789012345678901234567890123456789" // 40 characters
	g.Expect(wrapped(word+" "+word+" "+word, "  ")).To(Equal("  " + word + " " + word + "\n  " + word))
	g.Expect(wrapped("- "+word+" "+word+" "+word, "")).To(Equal("- " + word + " " + word + "\n  " + word))
}
