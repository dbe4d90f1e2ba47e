// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// twiceEdited is a ScaledJob that was edited twice.
func twiceEdited() *scaledjobv1.ScaledJob {
	return &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mail", Name: "emails", UID: "uid-1", Generation: 3, ResourceVersion: "30"},
		Spec:       scaledjobv1.ScaledJobSpec{PollingIntervalSeconds: 30},
	}
}

// history is an API server that returns earlier versions of a ScaledJob.
type history struct {
	client.Reader
	at  map[uint64]scaledjob.ScaledJob
	err error
}

func (h history) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(opts)
	version, err := strconv.ParseUint(asked.Raw.ResourceVersion, 10, 64)
	if err != nil || asked.Raw.ResourceVersionMatch != metav1.ResourceVersionMatchExact {
		return errors.New("the request has no exact version")
	}
	if was, known := h.at[version]; known {
		list.(*scaledjob.List).Items = []scaledjob.ScaledJob{was}
	}
	return h.err
}

// written returns a version of the ScaledJob, with its parallelism.
func written(version string, generation int64, parallelism int32) scaledjob.ScaledJob {
	sj := twiceEdited()
	sj.ResourceVersion, sj.Generation = version, generation
	sj.Spec.JobTemplate = &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Parallelism: &parallelism}}
	return decoded(sj)
}

func TestLastRollout(t *testing.T) {
	t.Parallel()
	type versions = map[uint64]scaledjob.ScaledJob
	another, unreadable := written("29", 2, 1), written("29", 2, 1)
	another.UID, unreadable.SpecErr = "uid-2", errAway
	long := versions{}
	for version := uint64(30 - 1); version > 0; version-- {
		long[version] = written(strconv.FormatUint(version, 10), 3, 2)
	}
	for name, c := range map[string]struct {
		observed int64
		server   history
		gradual  bool
		want     int64
		err      error
	}{
		"seen for the first time":       {server: history{err: errAway}},
		"not edited":                    {observed: 3, server: history{err: errAway}, want: 1},
		"edited":                        {observed: 2, server: history{at: versions{29: written("20", 2, 1)}}, want: 3},
		"edited, but not to replace":    {observed: 2, gradual: true, server: history{err: errAway}, want: 1},
		"another field was edited":      {observed: 2, server: history{at: versions{29: written("20", 2, 2)}}, want: 1},
		"several edits, the first":      {observed: 1, server: history{at: versions{29: written("20", 2, 2), 19: written("10", 1, 1)}}, want: 2},
		"several edits, the last":       {observed: 1, server: history{at: versions{29: written("20", 2, 1), 19: written("10", 1, 1)}}, want: 3},
		"there and back":                {observed: 1, server: history{at: versions{29: written("20", 2, 1), 19: written("10", 1, 2)}}, want: 3},
		"a write that was no edit":      {observed: 2, server: history{at: versions{29: written("20", 3, 2), 19: written("10", 2, 1)}}, want: 3},
		"too long ago":                  {observed: 2, server: history{err: apierrors.NewResourceExpired("compacted")}, want: 1},
		"too many writes ago":           {observed: 2, server: history{at: long}, want: 1},
		"another of its name was there": {observed: 2, server: history{at: versions{29: another}}, want: 1},
		"it could not be read then":     {observed: 2, server: history{at: versions{29: unreadable}}, want: 1},
		"no answer":                     {observed: 2, server: history{err: errAway}, err: errAway},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			now := written("30", 3, 2)
			if !c.gradual {
				now.Spec.Rollout.Strategy = scaledjobv1.RolloutImmediate
			}
			before := scaledjobv1.ScaledJobStatus{ObservedGeneration: c.observed, RolloutGeneration: 1}
			if c.observed == 0 {
				before.RolloutGeneration = 0
			}
			places := enqueue.NewPlaces(1, func(int, ...types.NamespacedName) {})
			r := &Reconciler{Live: c.server, places: places}
			asked := &target{sj: &now.ScaledJob, pass: places.Begin(types.NamespacedName{})}
			got, err := r.lastRollout(t.Context(), asked, &before, now.Template.Hash)
			if c.err != nil {
				g.Expect(err).To(MatchError(c.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(c.want))
		})
	}
}

func TestTemplateAccepted(t *testing.T) {
	t.Parallel()
	condition := func(status metav1.ConditionStatus, generation int64) []metav1.Condition {
		return []metav1.Condition{{Type: scaledjobv1.ConditionTemplateValid, Status: status, ObservedGeneration: generation}}
	}
	rejected := report.Checked(apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "emails", nil), nil)
	for name, c := range map[string]struct {
		known  []metav1.Condition
		answer *report.Condition
		want   bool
	}{
		"never asked":              {},
		"accepted now":             {answer: report.Checked(nil, nil), want: true},
		"rejected now":             {known: condition(metav1.ConditionTrue, 3), answer: rejected},
		"no verdict":               {answer: report.TemplateUnasked},
		"no verdict any more":      {known: condition(metav1.ConditionTrue, 3), answer: report.TemplateUnasked},
		"no verdict before":        {known: condition(metav1.ConditionUnknown, 3)},
		"accepted before":          {known: condition(metav1.ConditionTrue, 3), want: true},
		"rejected before":          {known: condition(metav1.ConditionFalse, 3)},
		"accepted before the edit": {known: condition(metav1.ConditionTrue, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(templateAccepted(twiceEdited(), c.known, c.answer)).To(Equal(c.want))
		})
	}
}
