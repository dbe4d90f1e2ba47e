// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/wakeup"
)

func TestCauseOfAnEvent(t *testing.T) {
	t.Parallel()
	for cause, events := range map[wakeup.Cause]string{
		wakeup.Growth: "lpush rpush linsert sortstore rename_to restore copy_to move_to",
		wakeup.Shrink: "lpop rpop ltrim lrem del rename_from move_from expired evicted set overwritten type_changed",
		wakeup.None:   "lset expire persist new keymiss",
	} {
		for event := range strings.FieldsSeq(events) {
			NewWithT(t).Expect(meaningOf(event).cause).To(Equal(cause), event)
		}
	}
	for event, its := range meanings {
		ofLists := strings.Fields("lpush rpush linsert sortstore lpop rpop ltrim lrem lset")
		NewWithT(t).Expect(its.list).To(Equal(slices.Contains(ofLists, event)), event)
	}
	for _, unknown := range []string{"", "LPUSH", "lpush ", "jsonarrappend", "\x00", strings.Repeat("x", 1<<20)} {
		NewWithT(t).Expect(meaningOf(unknown)).To(Equal(meaning{cause: wakeup.Growth}), "unknown events wake, and prove nothing")
	}
}
