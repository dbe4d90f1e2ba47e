// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/retry"
)

var errWrongKind = errors.New("json: cannot unmarshal string into Go struct field .threshold of type int64")

func TestSpecThatCannotBeReadIsReportedOnce(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.reconcileAt(t.Context(), 47)
	created := w.names()
	w.specErr = errWrongKind
	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { *spec = scaledjobv1.ScaledJobSpec{} })

	for range 3 {
		w.Expect(w.reconcile(t.Context())).To(beResync())
	}

	w.Expect(w.names()).To(Equal(created), "no Job is created, and no dry run is sent")
	w.Expect(w.jobs(t.Context())).To(HaveLen(len(created)), "no Job is deleted")
	w.Expect(w.watcher.forgotten).To(BeTrue())
	w.Expect(w.events.reasons).To(Equal([]string{"CreatedJobs", scaledjobv1.ReasonInvalidSpec}))
	w.Expect(w.applied).To(Equal(2))
	for kind, status := range map[string]metav1.ConditionStatus{
		scaledjobv1.ConditionReady: metav1.ConditionFalse, scaledjobv1.ConditionStalled: metav1.ConditionTrue,
	} {
		is := w.condition(t.Context(), kind)
		w.Expect(is.Status).To(Equal(status))
		w.Expect(is.Reason).To(Equal(scaledjobv1.ReasonInvalidSpec))
		w.Expect(is.Message).To(ContainSubstring("threshold"))
		w.Expect(is.ObservedGeneration).To(Equal(int64(2)))
	}
	w.Expect(w.scaledJob(t.Context()).Status.ActiveJobs).To(Equal(int32(len(created))), "unchanged")
	w.Expect(w.scrape()).To(HaveKeyWithValue("scaledjob_reconcile_errors_total", 3.0))
}

// The API server rejects every status of some such objects.
func TestSpecThatCannotBeReadAndStatusThatCannotBeWritten(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.specErr = errWrongKind
	w.onApply = func() error { return errAway }

	for range 3 {
		w.Expect(w.reconcile(t.Context()).RequeueAfter).To(BeNumerically("<=", retry.APIServer.After(1)),
			"the write is retried")
	}

	w.Expect(w.events.reasons).To(Equal([]string{scaledjobv1.ReasonInvalidSpec}))
}

func TestSpecThatIsMendedIsFollowed(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.queues.SetDepth(emailQueue, 47)
	w.specErr = errWrongKind
	w.reconcile(t.Context())

	w.specErr = nil
	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 20 })
	w.reconcile(t.Context())

	w.Expect(w.names()).To(HaveLen(3))
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionReady).Reason).To(Equal(scaledjobv1.ReasonReconciled))
	w.Expect(apimeta.FindStatusCondition(w.scaledJob(t.Context()).Status.Conditions, scaledjobv1.ConditionStalled)).
		To(BeNil())
}

// The API server would reject any status applied over a malformed one.
func TestStatusThatCannotBeReadIsDroppedOnce(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.queues.SetDepth(emailQueue, 47)
	w.statusErr = errWrongKind
	var dropped []string
	var refusal error
	w.r.Statuses.Client = interceptor.NewClient(w.r.Client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
			content, err := patch.Data(object)
			dropped = append(dropped, string(content))
			return errors.Join(err, refusal)
		},
	})

	refusal = errAway
	w.Expect(w.reconcileFails(t.Context())).To(MatchError(errAway))
	refusal = nil
	w.reconcile(t.Context())
	w.reconcile(t.Context())

	patch := `[{"op":"test","path":"/metadata/uid","value":"uid-1"},{"op":"add","path":"/status","value":{}}]`
	w.Expect(dropped).To(HaveExactElements(patch, patch))
	w.Expect(w.names()).To(HaveLen(5))
	w.Expect(w.scaledJob(t.Context()).Status.ActiveJobs).To(Equal(int32(5)))
}
