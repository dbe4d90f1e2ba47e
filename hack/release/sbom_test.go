// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestTheModuleOfTheAPIHasItsNameAndVersion(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	list := must.Get(cleaned([]byte(`{
		"metadata": {"tools": [{"name": "tool", "hashes": ["1"]}]},
		"components": [
			{"bom-ref": "pkg:golang/./api@(devel)?type=module", "name": "./api", "version": "(devel)"},
			{"bom-ref": "pkg:golang/k8s.io/api@v0.1.0?type=module", "name": "k8s.io/api", "version": "v0.1.0"}
		],
		"dependencies": [{"ref": "pkg:golang/./api@(devel)?type=module"}]
	}`), "v1.2.3"))(g)
	g.Expect(list).To(MatchJSON(`{
		"metadata": {"tools": [{"name": "tool"}]},
		"components": [
			{"bom-ref": "pkg:golang/miracle.dev/scaledjob-operator/api@v1.2.3?type=module", "name": "miracle.dev/scaledjob-operator/api", "version": "v1.2.3"},
			{"bom-ref": "pkg:golang/k8s.io/api@v0.1.0?type=module", "name": "k8s.io/api", "version": "v0.1.0"}
		],
		"dependencies": [{"ref": "pkg:golang/miracle.dev/scaledjob-operator/api@v1.2.3?type=module"}]
	}`))
	_, err := cleaned([]byte(`{"components": [{"name": "./other", "version": "(devel)"}]}`), "v1.2.3")
	g.Expect(err).To(MatchError("it has a module without a version"))
}
