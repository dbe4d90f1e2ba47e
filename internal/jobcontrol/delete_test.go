// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/retry"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// request is a request to delete a Job.
type request struct {
	name    string
	uid     types.UID
	options client.DeleteOptions
}

// deleting runs the deletes of a number of failed Jobs beyond the history limit, with answers by name.
func deleting(t *testing.T, record *Deletes, failed int, answer func(name string) error) (sent []request, more bool, err error) {
	t.Helper()
	var mu sync.Mutex
	writer := reading(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, request{object.GetName(), object.GetUID(), *(&client.DeleteOptions{}).ApplyOptions(opts)})
			return answer(object.GetName())
		},
	})
	var wanted []*batchv1.Job
	for i := range failed {
		wanted = append(wanted, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: "mail", Name: fmt.Sprintf("job-%03d", i), UID: types.UID(fmt.Sprint(i))},
			Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}},
		})
	}
	done := Deleter{writer, &Limiter{}}.Delete(t.Context(), &scaledjobv1.ScaledJob{}, record, wanted)
	return sent, done.More, done.Err
}

func succeed(string) error { return nil }

// Without a propagation policy the API server would orphan the Pods of a Job, and without the UID it could delete
// another Job of the same name.
func TestDeletesThisVeryJobWithItsPods(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)

	sent, more, err := deleting(t, &Deletes{}, 1, succeed)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(more).To(BeFalse())
	g.Expect(sent).To(HaveLen(1))
	g.Expect(sent[0].name).To(Equal("job-000"))
	g.Expect(sent[0].options.PropagationPolicy).To(HaveValue(Equal(metav1.DeletePropagationBackground)))
	g.Expect(sent[0].options.Preconditions.UID).To(HaveValue(Equal(types.UID("0"))))
}

// The cache shows a deleted Job for a while. It is deleted once, and does not count as work left.
func TestDeletesOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	record := &Deletes{}
	shown := []*batchv1.Job{{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, {ObjectMeta: metav1.ObjectMeta{UID: "b"}}}

	g.Expect(record.left(shown)).To(Equal(shown))
	record.deleted["a"] = struct{}{}
	for range 2 {
		g.Expect(record.left(shown)).To(Equal(shown[1:]), "it is skipped while the cache shows it")
	}
	g.Expect(record.left(shown[1:])).To(Equal(shown[1:]))
	g.Expect(record.deleted).To(BeEmpty(), "it is forgotten when the cache no longer shows it")
}

func TestErrors(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gone := map[string]error{
		"job-000": apierrors.NewNotFound(jobResource, "job-000"),
		"job-001": apierrors.NewConflict(jobResource, "job-001", errors.New("another UID")),
	}

	sent, _, err := deleting(t, &Deletes{}, 3, func(name string) error { return gone[name] })
	g.Expect(sent).To(HaveLen(3))
	g.Expect(err).NotTo(HaveOccurred(), "a missing Job is not an error")

	gone["job-001"] = errForbidden
	sent, _, err = deleting(t, &Deletes{}, 3, func(name string) error { return gone[name] })
	g.Expect(sent).To(HaveLen(3), "a failure does not stop the others")
	g.Expect(err).To(MatchError(errForbidden))
	g.Expect(err).To(MatchError(ContainSubstring("job-001")))
}

// A failed delete is retried. A successful one is not, even if the cache still shows the Job.
func TestDeletesAgain(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		record := &Deletes{}
		_, _, err := deleting(t, record, 3, func(name string) error {
			if name == "job-001" {
				return errForbidden
			}
			return nil
		})
		g.Expect(err).To(HaveOccurred())
		sent, _, err := deleting(t, record, 3, succeed)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(sent).To(BeEmpty(), "the retry is delayed")

		time.Sleep(retry.APIServer.After(1))
		sent, more, err := deleting(t, record, 3, succeed)

		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(sent).To(HaveLen(1))
		g.Expect(sent[0].name).To(Equal("job-001"))
		g.Expect(more).To(BeFalse())
	})
}

func TestLetsOthersHaveATurn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)

	sent, more, err := deleting(t, &Deletes{}, deletesPerReconcile, succeed)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sent).To(HaveLen(deletesPerReconcile))
	g.Expect(more).To(BeFalse())

	sent, more, err = deleting(t, &Deletes{}, deletesPerReconcile+1, succeed)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sent).To(HaveLen(deletesPerReconcile))
	g.Expect(more).To(BeTrue())
	for _, deleted := range sent {
		g.Expect(deleted.name).NotTo(Equal(fmt.Sprintf("job-%03d", deletesPerReconcile)), "the last Job is left")
	}
}
