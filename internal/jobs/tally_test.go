// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"maps"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestTally(t *testing.T) {
	type row struct {
		known []types.UID
		owned Owned
		// disappeared is true if an unfinished Job has disappeared. finished are the reported Jobs, and next the Jobs kept
		// for the next count.
		disappeared    bool
		finished, next []types.UID
	}
	bubble.Each(t, map[string]row{
		"nothing known":   {nil, sorted("a", "", ""), false, nil, []types.UID{"a"}},
		"nothing at all":  {nil, sorted("", "", ""), false, nil, nil},
		"all there":       {[]types.UID{"a", "b"}, sorted("ba", "", ""), false, nil, []types.UID{"a", "b"}},
		"one more":        {[]types.UID{"a"}, sorted("ab", "", ""), false, nil, []types.UID{"a", "b"}},
		"finished":        {[]types.UID{"a", "b", "c"}, sorted("a", "b", "c"), false, []types.UID{"b", "c"}, []types.UID{"a"}},
		"reported before": {[]types.UID{"a"}, sorted("a", "b", "c"), false, nil, []types.UID{"a"}},
		"one gone":        {[]types.UID{"a", "b"}, sorted("a", "", ""), true, nil, []types.UID{"a"}},
		"one gone, another new": {
			[]types.UID{"a", "b"}, sorted("ac", "", ""), true, nil, []types.UID{"a", "c"},
		},
		"all gone": {[]types.UID{"a"}, sorted("", "", ""), true, nil, nil},
	}, func(_ *testing.T, g Gomega, c row) {
		tally := Tally{active: map[types.UID]struct{}{}}
		for _, uid := range c.known {
			tally.Created(uid)
		}
		var finished []types.UID
		change := tally.Count(&c.owned)
		for _, job := range change.Finished {
			finished = append(finished, job.UID)
		}
		g.Expect(finished).To(ConsistOf(c.finished))
		g.Expect(change.Disappeared).To(Equal(c.disappeared))
		g.Expect(change.MadeRoom).To(Equal(c.disappeared || len(finished) > 0))
		g.Expect(slices.Collect(maps.Keys(tally.active))).To(ConsistOf(c.next))
		g.Expect(tally.Count(&c.owned)).To(Equal(Change{}), "nothing has changed since the last count")
	})
}

// sorted returns Jobs by state, with these letters as their UIDs.
func sorted(active, succeeded, failed string) Owned {
	return Owned{
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

func TestTheFirstTallyTellsOfAllThatFinished(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var tally Tally
	all := sorted("a", "b", "c")
	g.Expect(tally.First()).To(BeTrue())
	change := tally.Count(&all)
	g.Expect(change.Finished).To(HaveLen(2))
	g.Expect(change.Disappeared).To(BeTrue(), "this is the first count")
	g.Expect(tally.First()).To(BeFalse())
	g.Expect(tally.Total()).To(Equal(3))
	g.Expect(tally.Count(&all)).To(Equal(Change{}))
}

func TestTallyKnowsThatAFinishedJobHasGone(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var tally Tally
	before, after := sorted("a", "b", "c"), sorted("a", "", "c")
	tally.Count(&before)
	g.Expect(tally.Count(&after)).To(Equal(Change{MadeRoom: true}))
}

// Jobs that were just created also count as missing if they disappear before the cache has shown them.
func TestTallyKnowsCreatedJobs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	tally := Tally{active: map[types.UID]struct{}{}}
	none, first, done := sorted("", "", ""), sorted("a", "", ""), sorted("a", "b", "")
	tally.Created("a")
	tally.Created("b")
	g.Expect(tally.Count(&first).Disappeared).To(BeTrue())

	tally.Created("b")
	change := tally.Count(&done)
	g.Expect(change.Finished).To(HaveLen(1))
	g.Expect(change.Disappeared).To(BeFalse())
	g.Expect(tally.Count(&none).Disappeared).To(BeTrue())
}
