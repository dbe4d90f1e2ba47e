// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// largeScaledJob has a template that the cache does not keep.
func largeScaledJob() *scaledjobv1.ScaledJob {
	sj := scaledJob()
	sj.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args = []string{strings.Repeat("a", 100<<10)}
	return sj
}

// A large template is read from the API server for each reconcile that creates Jobs, and the Jobs are created one after
// the other.
func TestLargeTemplateIsReadBeforeTheCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, largeScaledJob())
	reads, underWay := 0, 0
	w.onLiveGet = func(object client.Object) error {
		if _, is := object.(*scaledjob.ScaledJob); is {
			reads++
		}
		return nil
	}
	w.onCreate = func(_ context.Context, job *batchv1.Job, send func() error) error {
		underWay++
		w.Expect(underWay).To(Equal(1))
		defer func() { underWay-- }()
		w.Expect(job.Spec.Template.Spec.Containers[0].Args[0]).To(HaveLen(100 << 10))
		return send()
	}
	w.queues.SetDepth(emailQueue, 30)

	w.reconcile(t.Context())

	w.Expect(w.jobs(t.Context())).To(HaveLen(3))
	w.Expect(reads).To(Equal(1), "for the creates and the dry run together")
	w.Expect(w.r.large.taken).To(BeZero())
	w.Expect(w.r.large.by).To(BeEmpty())

	w.reconcile(t.Context())
	w.Expect(reads).To(Equal(1), "nothing is to be created")
}

func TestLargeTemplateThatChangedMeanwhileCreatesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, largeScaledJob())
	lags := true
	w.onLiveGet = func(object client.Object) error {
		if found, is := object.(*scaledjob.ScaledJob); is && lags {
			found.Template.Hash = "newer than that of the cache"
		}
		return nil
	}
	w.queues.SetDepth(emailQueue, 30)

	result := w.reconcile(t.Context())
	w.Expect(w.jobs(t.Context())).To(BeEmpty())
	w.Expect(result.RequeueAfter).To(BeNumerically("<", 2*largeRetry))

	lags = false
	w.reconcile(t.Context())
	w.Expect(w.jobs(t.Context())).To(HaveLen(3))
}

func TestLargeTemplateThatCanNotBeReadIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, largeScaledJob())
	errDown := errors.New("down")
	w.onLiveGet = func(object client.Object) error {
		if _, is := object.(*scaledjob.ScaledJob); is {
			return errDown
		}
		return nil
	}
	w.queues.SetDepth(emailQueue, 30)
	w.Expect(w.reconcileFails(t.Context())).To(MatchError(errDown))
	w.Expect(w.jobs(t.Context())).To(BeEmpty())
	w.Expect(w.r.large.by).To(BeEmpty())
}

func TestLargeTemplateWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, largeScaledJob())
	w.Expect(w.r.large.take("mail", 1)).To(BeTrue(), "another one of the namespace")
	w.queues.SetDepth(emailQueue, 30)
	w.Expect(w.reconcile(t.Context()).RequeueAfter).To(BeNumerically("<", 2*largeRetry))
	w.Expect(w.jobs(t.Context())).To(BeEmpty())

	w.r.large.giveBack("mail", 1)
	w.reconcile(t.Context())
	w.Expect(w.jobs(t.Context())).To(HaveLen(3))
}

// One namespace gets one turn, so it holds up others only with a template that takes all the memory there is.
func TestLargeTemplatesAreBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var turns large
	g.Expect(turns.take("a", largeTemplates/2)).To(BeTrue())
	g.Expect(turns.take("a", 1)).To(BeFalse(), "one of each namespace")
	g.Expect(turns.take("b", largeTemplates)).To(BeFalse())
	g.Expect(turns.take("b", largeTemplates/2)).To(BeTrue())
	g.Expect(turns.take("c", 1)).To(BeFalse())
	turns.giveBack("a", largeTemplates/2)
	g.Expect(turns.take("c", 1)).To(BeTrue())
	turns.giveBack("b", largeTemplates/2)
	turns.giveBack("c", 1)
	g.Expect(turns.take("d", 10*largeTemplates)).To(BeTrue(), "a heavier one is decoded alone")
	g.Expect(turns.take("e", 1)).To(BeFalse())
	turns.giveBack("d", 10*largeTemplates)
	g.Expect(turns.taken).To(BeZero())
}
