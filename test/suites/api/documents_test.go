// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/examples"
)

// root is the root of the source.
const root = "../../.."

// Whoever copies an example must not have to mend it.
func TestExamplesOfDocumentsAccepted(t *testing.T) {
	t.Parallel()
	for _, document := range examples.Documents {
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			api := newClient(g)
			found, err := examples.OfDocument(root, document)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).NotTo(BeEmpty())
			for _, object := range found {
				object.SetNamespace("default")
				g.Expect(try(t.Context(), api, object)).To(Succeed(), "%s", object.Object)
			}
		})
	}
}
