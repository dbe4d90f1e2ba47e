// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestPrunable(t *testing.T) {
	type list = []*batchv1.Job
	type row struct {
		jobs              list
		succeeded, failed int32
		want              []string
	}
	bubble.Each(t, map[string]row{
		"nothing":                  {nil, 0, 0, []string{}},
		"within the limits":        {list{job("a", succeeded(1)), job("b", failed(1))}, 1, 1, []string{}},
		"the longest finished":     {list{job("a", succeeded(3)), job("b", succeeded(1)), job("c", succeeded(2))}, 1, 0, []string{"b", "c"}},
		"tie by name":              {list{job("c", failed(1)), job("a", failed(1)), job("b", failed(1))}, 0, 1, []string{"a", "b"}},
		"each limit for its own":   {list{job("a", succeeded(1)), job("b", failed(2))}, 0, 1, []string{"a"}},
		"succeeded before failed":  {list{job("a", failed(1)), job("b", succeeded(2))}, 0, 0, []string{"b", "a"}},
		"limits of 0 keep none":    {list{job("a", failed(1)), job("b", failed(2))}, 0, 0, []string{"a", "b"}},
		"active ones never":        {list{job("a"), job("b", terminating), job("c", readyPods(1))}, 0, 0, []string{}},
		"terminating ones skipped": {list{job("a", succeeded(1), terminating), job("b", succeeded(2))}, 0, 0, []string{"b"}},
		"terminating ones take no place": {
			list{job("a", succeeded(3), terminating), job("b", succeeded(2)), job("c", succeeded(1))}, 1, 0, []string{"c"},
		},
		"by the condition that ended it": {
			list{
				job("a", with(batchv1.JobFailureTarget, corev1.ConditionTrue, 1), failed(5)),
				job("b", with(batchv1.JobFailureTarget, corev1.ConditionTrue, 3), failed(4)),
			}, 0, 1, []string{"b"},
		},
		"not by one that is False": {
			list{
				job("a", with(batchv1.JobComplete, corev1.ConditionFalse, 1), failed(5)),
				job("b", failed(4)),
			}, 0, 1, []string{"b"},
		},
	}, func(_ *testing.T, g Gomega, c row) {
		owned := Classify(c.jobs, "uid-1")
		g.Expect(names(owned.Prunable(c.succeeded, c.failed))).To(Equal(c.want))
	})
}

func TestOldest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	owned := Classify([]*batchv1.Job{
		job("d", succeeded(4)), job("b", failed(2)), job("going", failed(1), terminating), job("active"), job("c", succeeded(3)),
	}, "uid-1")
	g.Expect(names(owned.Oldest(0, nil))).To(BeEmpty())
	g.Expect(names(owned.Oldest(1, nil))).To(BeEmpty(), "one goes already")
	g.Expect(names(owned.Oldest(3, nil))).To(Equal([]string{"b", "c"}))
	g.Expect(names(owned.Oldest(9, nil))).To(Equal([]string{"b", "c", "d"}))
	g.Expect(names(owned.Oldest(3, owned.Failed[:1]))).To(Equal([]string{"c"}), "one is given")
	g.Expect(names(owned.Oldest(2, owned.Failed[:1]))).To(BeEmpty())
}

// Prunable must not change the lists, which are used after it.
func TestPrunableLeavesTheCensus(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	owned := Classify([]*batchv1.Job{job("b", succeeded(2)), job("gone", succeeded(3), terminating), job("a", succeeded(1))}, "uid-1")

	owned.Prunable(0, 0)

	g.Expect(names(owned.Succeeded)).To(Equal([]string{"b", "gone", "a"}))
}
