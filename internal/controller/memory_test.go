// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

func TestMemories(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var all memories
	mem := all.of(scaledJob())
	mem.failures = 3

	g.Expect(all.of(scaledJob())).To(BeIdenticalTo(mem))
	neighbour := scaledJob()
	neighbour.Namespace = "images"
	g.Expect(all.of(neighbour).failures).To(BeZero())

	uid, known := all.drop(emails)
	g.Expect(known).To(BeTrue())
	g.Expect(uid).To(Equal(types.UID("uid-1")))
	_, known = all.drop(emails)
	g.Expect(known).To(BeFalse())
	g.Expect(all.of(scaledJob()).failures).To(BeZero())
}

func TestMemoriesOfARecreatedScaledJob(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var all memories
	all.of(scaledJob()).failures = 3
	again := scaledJob()
	again.UID = "uid-2"

	g.Expect(all.ofAnother(scaledJob())).To(BeFalse())
	g.Expect(all.ofAnother(again)).To(BeTrue())
	all.drop(emails)
	g.Expect(all.ofAnother(again)).To(BeFalse())
	g.Expect(all.of(again).uid).To(Equal(again.UID))
	g.Expect(all.of(again).failures).To(BeZero())
}

func TestMemoriesConcurrently(t *testing.T) {
	t.Parallel()
	var all memories
	var passes sync.WaitGroup
	for i := range 8 {
		sj := scaledJob()
		sj.Name = fmt.Sprint("emails-", i)
		key := types.NamespacedName{Namespace: sj.Namespace, Name: sj.Name}
		passes.Go(func() {
			for range 100 {
				all.of(sj).failures = 3
				all.drop(key)
			}
		})
	}
	passes.Wait()
	NewWithT(t).Expect(all.all).To(BeEmpty())
}
