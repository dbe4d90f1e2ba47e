// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
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

// targetOf returns a ScaledJob of a namespace.
func targetOf(all *memories, namespace, name string) *target {
	sj := &scaledjobv1.ScaledJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
	return &target{sj: sj, mem: all.of(sj)}
}

// Creates of a namespace are slow after one has timed out, until one is fast or all ScaledJobs are gone.
func TestSlowCreatesOfANamespace(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var all memories
	const fast, slow = time.Second, 10 * time.Second
	hanging, other := targetOf(&all, "mail", "hanging"), targetOf(&all, "mail", "other")

	all.noteCreates(other, false, slow)
	g.Expect(all.isSlow("mail")).To(BeFalse(), "none has timed out")
	all.noteCreates(hanging, true, createTimeout)
	g.Expect(all.hangs("mail")).To(BeTrue())
	all.noteCreates(other, false, slow)
	g.Expect(all.hangs("mail")).To(BeFalse(), "one has succeeded")
	g.Expect(all.isSlow("mail")).To(BeTrue(), "none was faster since")
	g.Expect(all.isSlow("images")).To(BeFalse())
	g.Expect(other.mem.createsSlowly).To(BeFalse())

	all.noteCreates(other, true, createTimeout)
	g.Expect(all.hangs("mail")).To(BeFalse(), "slow creates succeed")
	all.noteCreates(hanging, true, patientTimeout)
	g.Expect(all.hangs("mail")).To(BeTrue(), "they do not any longer")

	all.noteCreates(other, false, fast)
	g.Expect(all.isSlow("mail")).To(BeFalse())
	g.Expect(other.mem.createsSlowly).To(BeFalse())
	g.Expect(hanging.mem.createsSlowly).To(BeTrue(), "other ScaledJobs do not change that")

	all.noteCreates(hanging, true, createTimeout)
	all.drop(hanging.key())
	g.Expect(all.isSlow("mail")).To(BeTrue())
	all.drop(other.key())
	g.Expect(all.slow).To(BeEmpty(), "nothing is kept for a namespace without ScaledJobs")
}
