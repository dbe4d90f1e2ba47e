// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// reasonForm is the format that the API server requires for the reason of a condition. maxMessage is the maximum length
// of a message, in bytes.
var reasonForm = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

const maxMessage = 32768

// FuzzStatus shows that for any result of a reconcile the API server accepts the status, the conditions are sorted and
// have the current generation, and the same result changes nothing.
func FuzzStatus(f *testing.F) {
	f.Add(int64(1), int64(47), int32(5), uint8(0), uint8(0), uint8(0), uint8(0), "", false)
	f.Add(int64(9), int64(-1), int32(-1), uint8(1), uint8(1), uint8(1), uint8(1), "spec.template: Invalid value", true)
	f.Add(int64(0), int64(1<<62), int32(0), uint8(2), uint8(2), uint8(2), uint8(2), "\xff\x00é", true)
	f.Add(int64(3), int64(3), int32(3), uint8(4), uint8(3), uint8(5), uint8(3), "Klg", false)
	f.Fuzz(func(t *testing.T, generation, depth int64, desired int32, queue, limit, events, template uint8, text string, suspended bool) {
		g := NewWithT(t)
		sj := &scaledjobv1.ScaledJob{ObjectMeta: metav1.ObjectMeta{Generation: generation}, Spec: scaledjobv1.ScaledJobSpec{Suspend: suspended}}
		pass := passOf(queue, limit, events, template, text)
		if pass.QueueErr == nil {
			pass.Depth, pass.Desired = &depth, &desired
		}
		now := time.Unix(1_000_000, 0)

		first := Status(sj, &scaledjobv1.ScaledJobStatus{}, pass, now)
		expectAccepted(g, first.Conditions, generation)
		g.Expect(Status(sj, first, pass, now.Add(time.Hour))).To(Equal(first), "the same result changes nothing")

		other := depth ^ 0x5555
		if pass.Depth != nil {
			pass.Depth = &other
		}
		g.Expect(Status(sj, first, pass, now).Conditions).To(Equal(first.Conditions), "no message depends on the depth")
		expectAccepted(g, Malformed(sj, first, errors.New(text)).Conditions, generation)
		for _, event := range Events(&scaledjobv1.ScaledJobStatus{}, first) {
			g.Expect(len(event.Note)).To(BeNumerically("<=", 1024))
		}
	})
}

// passOf returns the result of a reconcile with every field set.
func passOf(queue, limit, events, template uint8, text string) Reconciled {
	queueErrs := []*failure.Error{
		nil, failure.Classify(failure.ErrBusy), failure.Classify(errors.New(text)), failure.Classify(failure.ErrClosed),
	}
	limits := []scaling.PauseReason{
		scaling.NotPaused, scaling.JobsFailing, scaling.NoProgress, scaling.MessagesOrphaned, scaling.CreateRefused,
	}
	verdicts := []verify.Reason{
		verify.Undecided, verify.ReasonSubscribed, verify.ReasonUnverified, verify.ReasonNoEventsObserved, verify.ReasonPermissionDenied,
		verify.ReasonUnreachable, verify.ReasonNotConfigured, verify.ReasonTooManyNotifications,
	}
	kind := schema.GroupKind{Group: "batch", Kind: "Job"}
	templates := []*Condition{
		nil, Checked(nil, []string{text}), templateUnchecked,
		Checked(apierrors.NewInvalid(kind, text, field.ErrorList{field.Invalid(field.NewPath("spec").Key(text), text, text)}), nil),
		Checked(apierrors.NewForbidden(schema.GroupResource{}, text, errors.New(text)), nil),
	}
	return Reconciled{
		AtMax:         limit&0x80 != 0,
		QueueErr:      queueErrs[int(queue)%len(queueErrs)],
		Limit:         limits[int(limit)%len(limits)],
		Due:           limit&0x40 != 0,
		Failures:      int(limit>>2) % 4,
		Answer:        admission.Judge(apierrors.NewForbidden(schema.GroupResource{}, text, errors.New(text))),
		Notifications: verify.Verdict{Reason: verdicts[int(events)%len(verdicts)], Flags: string(verify.Flags(text).WithRecommended().Known())},
		Template:      templates[int(template)%len(templates)],
	}
}

// expectAccepted expects that the API server accepts the conditions.
func expectAccepted(g *WithT, conditions []metav1.Condition, generation int64) {
	seen := -1
	for _, is := range conditions {
		at := slices.Index(conditionOrder, is.Type)
		g.Expect(at).To(BeNumerically(">", seen), "each once, in order: %s", is.Type)
		seen = at
		g.Expect(is.ObservedGeneration).To(Equal(generation), is.Type)
		g.Expect(is.Status).To(BeElementOf(metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown))
		g.Expect(is.Reason).To(MatchRegexp(reasonForm.String()))
		g.Expect(len(is.Message)).To(BeNumerically("<=", maxMessage))
		g.Expect(utf8.ValidString(is.Message)).To(BeTrue(), fmt.Sprintf("%s: %q", is.Type, is.Message))
		g.Expect(is.LastTransitionTime.IsZero()).To(BeFalse())
	}
}
