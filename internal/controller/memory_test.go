// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"miracle.dev/scaledjob-operator/internal/creation"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

func TestRecount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		known  []types.UID
		census jobs.Census
		// doubted says that the ScaledJob may be going; finished and next are the Jobs that are told of, and kept for the next count.
		doubted        bool
		finished, next []types.UID
	}{
		"nothing known":  {nil, census("a", "", ""), false, nil, []types.UID{"a"}},
		"nothing at all": {nil, census("", "", ""), false, nil, nil},
		"all there":      {[]types.UID{"a", "b"}, census("ba", "", ""), false, nil, []types.UID{"a", "b"}},
		"one more":       {[]types.UID{"a"}, census("ab", "", ""), false, nil, []types.UID{"a", "b"}},
		"finished":       {[]types.UID{"a", "b", "c"}, census("a", "b", "c"), false, []types.UID{"b", "c"}, []types.UID{"a"}},
		"told of before": {[]types.UID{"a"}, census("a", "b", "c"), false, nil, []types.UID{"a"}},
		"one gone":       {[]types.UID{"a", "b"}, census("a", "", ""), true, nil, []types.UID{"a"}},
		"one gone, another new": {
			[]types.UID{"a", "b"}, census("ac", "", ""), true, nil, []types.UID{"a", "c"},
		},
		"all gone": {[]types.UID{"a"}, census("", "", ""), true, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			mem := &memory{active: map[types.UID]struct{}{}}
			for _, uid := range c.known {
				mem.active[uid] = struct{}{}
			}
			var finished []types.UID
			ended, madeRoom := mem.recount(&c.census)
			for _, job := range ended {
				finished = append(finished, job.UID)
			}
			g.Expect(finished).To(ConsistOf(c.finished))
			g.Expect(mem.ownerDoubted).To(Equal(c.doubted))
			g.Expect(madeRoom).To(Equal(c.doubted || len(finished) > 0))
			g.Expect(slices.Collect(maps.Keys(mem.active))).To(ConsistOf(c.next))
			mem.recount(&c.census)
			g.Expect(mem.ownerDoubted).To(Equal(c.doubted), "until somebody has asked")
		})
	}
}

// census is made of Jobs with these letters as their UIDs.
func census(active, succeeded, failed string) jobs.Census {
	return jobs.Census{
		Active: jobsThat("", active), Succeeded: jobsThat(batchv1.JobComplete, succeeded), Failed: jobsThat(batchv1.JobFailed, failed),
	}
}

func jobsThat(ended batchv1.JobConditionType, uids string) []*batchv1.Job {
	var list []*batchv1.Job
	for _, uid := range uids {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
		if ended != "" {
			job.Status.Conditions = []batchv1.JobCondition{{Type: ended, Status: corev1.ConditionTrue}}
		}
		list = append(list, job)
	}
	return list
}

func TestFirstRecountTellsOfAllThatFinished(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	mem, all := &memory{}, census("a", "b", "c")
	finished, _ := mem.recount(&all)
	g.Expect(finished).To(HaveLen(2))
	g.Expect(mem.ownerDoubted).To(BeTrue(), "nothing was counted before")
	finished, madeRoom := mem.recount(&all)
	g.Expect(finished).To(BeEmpty())
	g.Expect(madeRoom).To(BeFalse())
}

func TestRecountKnowsThatAFinishedJobHasGone(t *testing.T) {
	t.Parallel()
	mem, before, after := &memory{}, census("a", "b", "c"), census("a", "", "c")
	mem.recount(&before)
	_, madeRoom := mem.recount(&after)
	NewWithT(t).Expect(madeRoom).To(BeTrue())
}

// Jobs that were just created are missed as well, should they go before the cache has shown them.
func TestRecountKnowsCreatedJobs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	mem, none, first := &memory{active: map[types.UID]struct{}{}}, census("", "", ""), census("a", "", "")
	mem.add([]creation.Created{{UID: "a"}, {UID: "b"}})
	mem.recount(&first)
	g.Expect(mem.ownerDoubted).To(BeTrue())

	mem.ownerDoubted = false
	mem.add([]creation.Created{{UID: "b"}})
	done := census("a", "b", "")
	finished, _ := mem.recount(&done)
	g.Expect(finished).To(HaveLen(1))
	g.Expect(mem.ownerDoubted).To(BeFalse())
	mem.recount(&none)
	g.Expect(mem.ownerDoubted).To(BeTrue())
}

func TestMemories(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var all memories
	mem := all.of(scaledJob())
	mem.createFailed = true

	g.Expect(all.of(scaledJob())).To(BeIdenticalTo(mem))
	neighbour := scaledJob()
	neighbour.Namespace = "images"
	g.Expect(all.of(neighbour).createFailed).To(BeFalse())

	uid, known := all.drop(emails)
	g.Expect(known).To(BeTrue())
	g.Expect(uid).To(Equal(types.UID("uid-1")))
	_, known = all.drop(emails)
	g.Expect(known).To(BeFalse())
	g.Expect(all.of(scaledJob()).createFailed).To(BeFalse())
}

func TestMemoriesOfARecreatedScaledJob(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var all memories
	all.of(scaledJob()).createFailed = true
	again := scaledJob()
	again.UID = "uid-2"

	g.Expect(all.ofAnother(scaledJob())).To(BeFalse())
	g.Expect(all.ofAnother(again)).To(BeTrue())
	all.drop(emails)
	g.Expect(all.ofAnother(again)).To(BeFalse())
	g.Expect(all.of(again).uid).To(Equal(again.UID))
	g.Expect(all.of(again).createFailed).To(BeFalse())
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
				all.of(sj).createFailed = true
				all.drop(key)
			}
		})
	}
	passes.Wait()
	NewWithT(t).Expect(all.all).To(BeEmpty())
}
