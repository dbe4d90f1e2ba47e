// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

const document = `# The version is replaced.
version: 0.0.0   # by the release
appVersion: "0.0.0"

image: {repository: scaledjob-operator, digest: "", pullPolicy: Always}   # in flow style
other:
  # A comment with repository: in it.
  repository: 'scaledjob-operator'
  tag: ""
  digest:
  text: |
    image: scaledjob-operator
`

func TestOnlyTheNamedTextsChange(t *testing.T) {
	t.Parallel()
	changed, err := setScalars([]byte(document), map[string]string{
		"version": "1.2.3", "appVersion": "v1.2.3", "image.repository": "registry.example/a", "image.digest": "sha256:0",
		"other.repository": "registry.example/b", "other.tag": "v1",
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(string(changed)).To(Equal(`# The version is replaced.
version: "1.2.3"   # by the release
appVersion: "v1.2.3"

image: {repository: "registry.example/a", digest: "sha256:0", pullPolicy: Always}   # in flow style
other:
  # A comment with repository: in it.
  repository: "registry.example/b"
  tag: "v1"
  digest:
  text: |
    image: scaledjob-operator
`))
}

func TestTextsThatCannotBeReplaced(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"missing":       "it has no missing",
		"image.missing": "it has no image.missing",
		"version.x":     "it has no version.x",
		"other.digest":  "other.digest is not a text on one line",
		"other.text":    "other.text is not a text on one line",
		"other":         "other is not a text on one line",
	} {
		_, err := setScalars([]byte(document), map[string]string{key: "x"})
		NewWithT(t).Expect(err).To(MatchError(want))
	}
	_, err := setScalars([]byte("a: [b"), nil)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("yaml:")))
	_, err = setScalars(nil, map[string]string{"a": "x"})
	NewWithT(t).Expect(err).To(MatchError("it has no a"))
}
