// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

func TestSharedQueuesAreReportedOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var all memories
	named := func(namespace, name string, change func(*scaledjobv1.ScaledJobSpec)) *target {
		sj := scaledJob()
		sj.Namespace, sj.Name = namespace, name
		change(&sj.Spec)
		return &target{sj: sj, spec: scaledjob.Resolve(sj), mem: all.of(sj)}
	}
	as := func(*scaledjobv1.ScaledJobSpec) { /* as it is */ }
	first := named("mail", "first", as)
	g.Expect(all.share(first)).To(BeEmpty())
	g.Expect(all.share(named("images", "first", as))).To(BeEmpty(), "one namespace does not learn of another")
	g.Expect(all.share(named("mail", "another-key", func(spec *scaledjobv1.ScaledJobSpec) { spec.QueueName = "b" }))).To(BeEmpty())
	g.Expect(all.share(named("mail", "another-database", func(spec *scaledjobv1.ScaledJobSpec) {
		spec.RedisAddress, spec.Redis = "", &scaledjobv1.Redis{Addresses: []string{address}, Database: 1}
	}))).To(BeEmpty())

	second := named("mail", "second", as)
	g.Expect(all.share(second)).To(Equal([]report.Event{report.SharedQueue(emailQueue, "first")}))
	g.Expect(all.share(second)).To(BeEmpty(), "the spec has not changed")
	first.sj.Generation, second.sj.Generation = 2, 2
	g.Expect(all.share(first)).To(BeEmpty(), "an edit of another field")
	g.Expect(all.share(second)).To(BeEmpty())

	all.drop(first.key())
	third := named("mail", "third", as)
	g.Expect(all.share(third)).To(Equal([]report.Event{report.SharedQueue(emailQueue, "second")}))
	second.sj.Spec.QueueName, second.sj.Generation = "b", 3
	second.spec = scaledjob.Resolve(second.sj)
	g.Expect(all.share(second)).To(Equal([]report.Event{report.SharedQueue("b", "another-key")}))
	for _, key := range []*target{second, third} {
		all.drop(key.key())
	}
	g.Expect(all.named).NotTo(HaveKey(queueIDs(first)[0]))
}

func TestGroupsOfAStreamAreNotShared(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var all memories
	grouped := func(name, group string) *target {
		sj := scaledJob()
		sj.Name, sj.Spec.QueueName = name, ""
		sj.Spec.Queues = []scaledjobv1.Queue{stream("events", group)}
		return &target{sj: sj, spec: scaledjob.Resolve(sj), mem: all.of(sj)}
	}
	g.Expect(all.share(grouped("a", "readers"))).To(BeEmpty())
	g.Expect(all.share(grouped("b", "auditors"))).To(BeEmpty())
	g.Expect(all.share(grouped("c", "readers"))).To(HaveLen(1))
}
