// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"miracle.dev/scaledjob-operator/internal/jobs"
)

// jobsWith are Jobs with these UIDs.
func jobsWith(uids ...types.UID) []*batchv1.Job {
	var list []*batchv1.Job
	for _, uid := range uids {
		list = append(list, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: uid}})
	}
	return list
}

func TestRecount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		known    []types.UID
		census   jobs.Census
		complete bool
		// next are those that are kept for the next count.
		next []types.UID
	}{
		"nothing known":  {nil, jobs.Census{Active: jobsWith("a")}, true, []types.UID{"a"}},
		"nothing at all": {nil, jobs.Census{}, true, nil},
		"all there":      {[]types.UID{"a", "b"}, jobs.Census{Active: jobsWith("b", "a")}, true, []types.UID{"a", "b"}},
		"one more":       {[]types.UID{"a"}, jobs.Census{Active: jobsWith("a", "b")}, true, []types.UID{"a", "b"}},
		"finished": {
			[]types.UID{"a", "b", "c"}, jobs.Census{Active: jobsWith("a"), Succeeded: jobsWith("b"), Failed: jobsWith("c")}, true, []types.UID{"a"},
		},
		"one gone":              {[]types.UID{"a", "b"}, jobs.Census{Active: jobsWith("a")}, false, []types.UID{"a", "b"}},
		"one gone, another new": {[]types.UID{"a", "b"}, jobs.Census{Active: jobsWith("a", "c")}, false, []types.UID{"a", "b"}},
		"all gone":              {[]types.UID{"a"}, jobs.Census{}, false, []types.UID{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			mem := &memory{}
			mem.remember(&jobs.Census{Active: jobsWith(c.known...)})

			g.Expect(mem.recount(&c.census)).To(Equal(c.complete))

			g.Expect(mem.active).To(HaveLen(len(c.next)))
			for _, uid := range c.next {
				g.Expect(mem.active).To(HaveKey(uid))
			}
		})
	}
}

// Jobs that were just created are missed as well, should they go before the cache has shown them.
func TestRecountKnowsCreatedJobs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	mem := &memory{}
	g.Expect(mem.recount(&jobs.Census{})).To(BeFalse(), "nothing was counted before")
	mem.remember(&jobs.Census{})
	mem.add([]creation{{uid: "a"}, {uid: "b"}})

	g.Expect(mem.recount(&jobs.Census{Active: jobsWith("a")})).To(BeFalse())
	g.Expect(mem.recount(&jobs.Census{Active: jobsWith("a", "b")})).To(BeTrue())
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
	g.Expect(all.of(again)).To(Equal(&memory{uid: "uid-2"}))
}

func TestOverdueMemories(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var all memories
	now := time.Unix(1000, 0)
	all.expect(emails, now)
	g.Expect(all.overdue(now.Add(time.Hour))).To(BeEmpty(), "nothing is expected of one that is gone")

	all.of(scaledJob())
	g.Expect(all.overdue(now.Add(time.Hour))).To(BeEmpty(), "its first pass is under way")
	all.expect(emails, now)
	g.Expect(all.overdue(now)).To(BeEmpty())
	g.Expect(all.overdue(now.Add(1))).To(Equal([]types.NamespacedName{emails}))
	all.expect(emails, now.Add(time.Minute))
	g.Expect(all.overdue(now.Add(1))).To(BeEmpty())
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
				all.expect(key, time.Now())
				all.overdue(time.Now())
				all.drop(key)
			}
		})
	}
	passes.Wait()
	NewWithT(t).Expect(all.entries).To(BeEmpty())
}
