// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Without a transaction, this order prevents that a message which moves between the reads counts twice.
func TestWhatIsInProgressIsAskedForFirst(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	asked := newBatch([]Queue{{Key: "a"}, {Key: "b", InProgress: true}, {Key: "c"}, {Key: "d", InProgress: true}}, time.Now())
	g.Expect(asked.commands).To(Equal([][]any{{"llen", "b"}, {"llen", "d"}, {"llen", "a"}, {"llen", "c"}}))
	g.Expect(asked.readings([]any{int64(2), int64(4), int64(1), int64(3)})).To(Equal([]reading{
		{Count: Count{Waiting: 1}}, {Count: Count{InProgress: 2}}, {Count: Count{Waiting: 3}}, {Count: Count{InProgress: 4}},
	}))
}
