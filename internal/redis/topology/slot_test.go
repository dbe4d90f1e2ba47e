// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// A real node computes the same slots.
func TestSlotOf(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	node := redistest.New(t, redistest.Options{Cluster: true})
	for _, key := range []string{
		"", "a", "emails", "123456789", "{emails}:waiting", "{emails}:busy", "before{tag}after", "{}empty", "{unclosed", "}{x}", "{{x}}",
		"two{a}{b}", "bytes \x00\xff\r\n", "ünïcode",
	} {
		slot := must.Get(node.Client().ClusterKeySlot(t.Context(), key).Result())(g)
		g.Expect(int64(topology.SlotOf(key))).To(Equal(slot), key)
	}
	g.Expect(topology.SlotOf("{emails}:waiting")).To(Equal(topology.SlotOf("emails")))
}
