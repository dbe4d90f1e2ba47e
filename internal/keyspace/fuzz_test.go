// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
)

// FuzzEvent checks that a message marks only the ids that watch the key of its channel, whatever is published, and that
// every unknown event counts as growth.
func FuzzEvent(f *testing.F) {
	f.Add("emails", "emails", "lpush")
	f.Add("emails", "__keyspace@0__:emails", "lpop")
	f.Add("", "*", "")
	f.Add("a\x00b", "a", "LPUSH")
	f.Add("[a-z]*", "emails", "expired")
	f.Fuzz(func(t *testing.T, key, other, event string) {
		g := NewWithT(t)
		var ids []string
		set := newChannelSet(func(id ID, _ coalesce.Cause) { ids = append(ids, id.Name) }, &budget.Namespaces{})
		set.add(channelPrefix+key, named("watcher"))
		set.add(channelPrefix+key+"2", named("neighbour"))
		marked := func(channel string) []string {
			ids = nil
			set.event(channel, meaningOf(event).cause)
			return ids
		}
		g.Expect(marked(channelPrefix + key)).To(ConsistOf("watcher"))
		if other != key && other != key+"2" {
			g.Expect(marked(channelPrefix + other)).To(BeEmpty())
		}
		g.Expect(marked(key) == nil).To(Equal(!strings.HasPrefix(key, channelPrefix) || key != channelPrefix+key))
		its, known := meanings[event]
		g.Expect(meaningOf(event).cause == coalesce.Growth).To(Equal(!known || its.cause == coalesce.Growth))
		g.Expect(known || meaningOf(event).class == 0).To(BeTrue(), "an unknown event proves nothing")
	})
}
