// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

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
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/requests"
)

// deletion is a request to delete a Job.
type deletion struct {
	name    string
	uid     types.UID
	options client.DeleteOptions
}

// pruning makes a pass that finds so many failed Jobs, of which none is to be kept, and has their deletes answered by name.
func pruning(t *testing.T, mem *memory, failed int, answer func(name string) error) (sent []deletion, more bool, err error) {
	t.Helper()
	var mu sync.Mutex
	deleting := fake.NewClientBuilder().WithTypeConverters(managedfields.NewDeducedTypeConverter()).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, deletion{object.GetName(), object.GetUID(), *(&client.DeleteOptions{}).ApplyOptions(opts)})
			return answer(object.GetName())
		},
	}).Build()
	var seen observation
	for i := range failed {
		seen.jobs.Failed = append(seen.jobs.Failed, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: "mail", Name: fmt.Sprintf("job-%03d", i), UID: types.UID(fmt.Sprint(i))},
			Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}},
		})
	}
	sj := scaledJob()
	sj.Spec.FailedJobsHistoryLimit = new(int32(0))
	done := (&Reconciler{Client: deleting}).prune(t.Context(), sj, mem, seen, nil)
	return sent, done.more, done.err
}

// Without a policy the API server would leave the Pods of a Job behind, and without the UID it could delete another Job of this name.
func TestPruneDeletesThisVeryJobWithItsPods(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)

	sent, more, err := pruning(t, &memory{}, 1, func(string) error { return nil })

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(more).To(BeFalse())
	g.Expect(sent).To(HaveLen(1))
	g.Expect(sent[0].name).To(Equal("job-000"))
	g.Expect(sent[0].options.PropagationPolicy).To(HaveValue(Equal(metav1.DeletePropagationBackground)))
	g.Expect(sent[0].options.Preconditions.UID).To(HaveValue(Equal(types.UID("0"))))
}

// The cache shows a deleted Job for a while. It is deleted once, and nobody waits for that as for work left undone.
func TestPruneDeletesOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	mem := &memory{}
	shown := []*batchv1.Job{{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, {ObjectMeta: metav1.ObjectMeta{UID: "b"}}}

	g.Expect(mem.unpruned(shown)).To(Equal(shown))
	mem.pruned["a"] = struct{}{}
	for range 2 {
		g.Expect(mem.unpruned(shown)).To(Equal(shown[1:]), "for as long as the cache shows it")
	}
	g.Expect(mem.unpruned(shown[1:])).To(Equal(shown[1:]))
	g.Expect(mem.pruned).To(BeEmpty(), "nothing is kept of a Job that the cache shows no longer")
}

func TestPruneErrors(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gone := map[string]error{
		"job-000": apierrors.NewNotFound(jobResource, "job-000"),
		"job-001": apierrors.NewConflict(jobResource, "job-001", errors.New("another UID")),
	}

	sent, _, err := pruning(t, &memory{}, 3, func(name string) error { return gone[name] })
	g.Expect(sent).To(HaveLen(3))
	g.Expect(err).NotTo(HaveOccurred(), "what is gone need not be deleted")

	gone["job-001"] = errForbidden
	sent, _, err = pruning(t, &memory{}, 3, func(name string) error { return gone[name] })
	g.Expect(sent).To(HaveLen(3), "one does not keep the others")
	g.Expect(err).To(MatchError(errForbidden))
	g.Expect(err).To(MatchError(ContainSubstring("job-001")))
}

// A delete that failed is tried again, and one that did not is not, though the cache may still show the Job.
func TestPruneAgain(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	mem := &memory{}
	_, _, err := pruning(t, mem, 3, func(name string) error {
		if name == "job-001" {
			return errForbidden
		}
		return nil
	})
	g.Expect(err).To(HaveOccurred())
	sent, _, err := pruning(t, mem, 3, func(string) error { return nil })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sent).To(BeEmpty(), "not at once")

	mem.pruning.next = time.Time{}
	sent, more, err := pruning(t, mem, 3, func(string) error { return nil })

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sent).To(HaveLen(1))
	g.Expect(sent[0].name).To(Equal("job-001"))
	g.Expect(more).To(BeFalse())
}

func TestPruneLetsOthersHaveATurn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)

	sent, more, err := pruning(t, &memory{}, deletesPerPass, func(string) error { return nil })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sent).To(HaveLen(deletesPerPass))
	g.Expect(more).To(BeFalse())

	sent, more, err = pruning(t, &memory{}, deletesPerPass+1, func(string) error { return nil })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sent).To(HaveLen(deletesPerPass))
	g.Expect(more).To(BeTrue())
	for _, deleted := range sent {
		g.Expect(deleted.name).NotTo(Equal(fmt.Sprintf("job-%03d", deletesPerPass)), "the last in order is left")
	}
}

// Pruning needs only the Jobs: an outage of Redis does not let them pile up.
func TestPruneWithoutRedis(t *testing.T) {
	t.Parallel()
	sj := scaledJob()
	sj.Spec.SuccessfulJobsHistoryLimit = new(int32(0))
	done := jobs.Build(sj, 1, 0)
	done.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	w := newWorld(t, sj, done)
	w.queues.SetError(emailQueue, unreachable)

	w.reconcile(t.Context())

	w.Expect(w.jobs(t.Context())).To(BeEmpty())
}

// An admission policy may protect Jobs from deletion for ever.
func TestPruningThatIsRefusedDoesNotHoldUpCreating(t *testing.T) {
	t.Parallel()
	sj := scaledJob()
	sj.Spec.SuccessfulJobsHistoryLimit = new(int32(0))
	w := newWorld(t, sj)
	w.warmUp(t.Context())
	w.finish(t.Context(), w.names()[0], batchv1.JobComplete)
	refused := 0
	w.r.Client = interceptor.NewClient(w.r.Client.(client.WithWatch), interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			refused++
			return errForbidden
		},
	})

	w.queues.SetDepth(emailQueue, 25)
	w.Expect(w.reconcile(t.Context()).RequeueAfter).To(BeNumerically("<=", requests.RetryDelay(1)))
	w.queues.SetDepth(emailQueue, 45)
	w.reconcile(t.Context())

	w.Expect(w.names()).To(HaveLen(1 + 5))
	w.Expect(refused).To(Equal(1), "and is tried again later")
	w.Expect(w.scrape()).To(HaveKeyWithValue("scaledjob_reconcile_errors_total", 1.0))
}

// What was stored under an older CRD may be below the minimum of today.
func TestNegativeHistoryLimitsOfAnOlderCRDCauseNoPanic(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*scaledjobv1.ScaledJobSpec){
		"succeeded": func(spec *scaledjobv1.ScaledJobSpec) { spec.SuccessfulJobsHistoryLimit = new(int32(-1)) },
		"failed":    func(spec *scaledjobv1.ScaledJobSpec) { spec.FailedJobsHistoryLimit = new(int32(-1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sj := scaledJob()
			set(&sj.Spec)
			w := newWorld(t, sj)
			defer func() { w.Expect(recover()).To(BeNil()) }()
			w.reconcile(t.Context())
		})
	}
}
