// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// A ScaledJob is deleted and created again, with another queue, while the watch of ScaledJobs is down. To the new watch
// that looks like an update, of an object whose generation is still 1.
func TestRecreatedWhileTheWatchIsDown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	startOperator(t, proxy, []string{namespace})
	rarely := func(spec *scaledjobv1.ScaledJobSpec) { spec.PollingIntervalSeconds = 3600 }
	former := newScaledJob(t, namespace, "recreated", 1, 10, rarely)
	former.awaitSubscription(t)
	proxy.scaledJobs.Set(frozen)
	left := proxy.expire("scaledjobs")
	g.Expect(api.Delete(t.Context(), former.Object)).To(Succeed())
	current := newScaledJob(t, namespace, "recreated", 1, 10, rarely, func(spec *scaledjobv1.ScaledJobSpec) { spec.QueueName += ":other" })
	proxy.scaledJobs.End()
	proxy.scaledJobs.Set(0)
	g.Eventually(left).WithTimeout(timeout).Should(BeZero())

	g.Expect(current.PushTogether(t.Context(), 5)).To(Succeed())
	g.Eventually(current.Witness.Created).WithTimeout(timeout/3).Should(Equal(5), "the new ScaledJob is served")
}
