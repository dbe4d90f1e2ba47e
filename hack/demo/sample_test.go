// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestSampleIsTheShippedOneButForItsRedis(t *testing.T) {
	g := NewWithT(t)
	t.Chdir("../..")
	sample, err := readSample("127.0.0.1:6379")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sample.Spec.RedisAddress).To(Equal("127.0.0.1:6379"))
	g.Expect(sample.Spec.QueueName).NotTo(BeEmpty())
	g.Expect(sample.Spec.JobTemplate.Spec.Template.Spec.Containers).NotTo(BeEmpty())
}
