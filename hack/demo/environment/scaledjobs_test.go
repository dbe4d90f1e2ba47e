// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestTheFirstIsTheShippedOneButForItsRedis(t *testing.T) {
	g := NewWithT(t)
	t.Chdir("../../..")
	all, err := scaledJobs("127.0.0.1:6379", "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all[0].Name).To(Equal(Images))
	g.Expect(all[0].Spec.RedisAddress).To(Equal("127.0.0.1:6379"))
	g.Expect(all[0].Spec.QueueName).To(Equal("image-resize-queue"))
	g.Expect(all[0].Spec.JobTemplate.Spec.Template.Spec.Containers).NotTo(BeEmpty())
}

func TestEachHasAQueueOfItsOwnBelowThePrefix(t *testing.T) {
	g := NewWithT(t)
	t.Chdir("../../..")
	all, err := scaledJobs("127.0.0.1:6379", "demo:")
	g.Expect(err).NotTo(HaveOccurred())
	names, queues := map[string]bool{}, map[string]bool{}
	for _, scaledJob := range all {
		names[scaledJob.Name] = true
		queues[scaledJob.Spec.QueueName] = true
		g.Expect(scaledJob.Spec.QueueName).To(HavePrefix("demo:"))
	}
	g.Expect(names).To(HaveLen(3))
	g.Expect(queues).To(HaveLen(3))
}
