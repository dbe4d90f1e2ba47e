// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

// A queue in balance near the limit crosses it many times a second. That turns a condition each time, but the status must not be written
// each time.
func TestStatusOfAQueueThatCrossesTheLimitIsWrittenOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.queues.SetDepth(emailQueue, 200)
		w.reconcile(t.Context())
		w.reconcile(t.Context())
		const seconds = 10
		before := w.applied
		for i := range seconds * 40 { // growth wakes at most every 25 ms
			w.queues.SetDepth(emailQueue, int64(200+i%2))
			w.reconcile(t.Context())
			time.Sleep(25 * time.Millisecond)
		}
		w.Expect(w.applied-before).To(BeNumerically("<=", 12*seconds/10), "status writes in %d s", seconds)
	})
}
