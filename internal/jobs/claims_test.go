// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// withReady returns a Job with this number of ready Pods.
func withReady(name string, ready int32) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}, Status: batchv1.JobStatus{Ready: &ready}}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const grace = 10 * time.Second
	at := func(second int) time.Time { return time.Unix(1000, 0).Add(time.Duration(second) * time.Second) }
	var c Claims
	expect := func(claimed int, next time.Time, second int, active ...*batchv1.Job) {
		t.Helper()
		gotClaimed, gotNext := c.Count(active, grace, at(second))
		g.Expect(gotClaimed).To(Equal(claimed), "at %d s", second)
		g.Expect(gotNext).To(Equal(next), "at %d s", second)
	}
	never := time.Time{}
	unknown := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "c"}}

	expect(0, never, 0, withReady("a", 0), withReady("b", 0), unknown)
	expect(0, at(11), 1, withReady("a", 1), withReady("b", 0), unknown)
	expect(0, at(11), 10, withReady("a", 1), withReady("b", 2), unknown)
	expect(1, at(20), 11, withReady("a", 1), withReady("b", 2), unknown)
	expect(2, never, 20, withReady("a", 1), withReady("b", 2), unknown)
	expect(1, never, 21, withReady("a", 0), withReady("b", 2))
	expect(1, at(32), 22, withReady("a", 1), withReady("b", 2))
	expect(0, at(32), 23, withReady("a", 1))
	g.Expect(c).To(HaveLen(1), "finished Jobs are removed")
	claimed, _ := c.Count([]*batchv1.Job{withReady("new", 1)}, 0, at(24))
	g.Expect(claimed).To(Equal(1), "no grace")
}
