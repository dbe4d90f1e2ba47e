// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/suites/faults"
)

// seen is an observer that has seen just this.
type seen struct {
	created    int
	unfinished []string
	violation  string
}

func (s seen) Created() int               { return s.created }
func (s seen) Unfinished() []string       { return s.unfinished }
func (s seen) Violation() string          { return s.violation }
func (s seen) Sync(context.Context) error { return nil }

func queueOf(on *server, pushed int, what seen) *queue {
	q := &queue{server: on, observed: what, ScaledJob: &sjtest.ScaledJob{
		Name: "emails", Queue: "emails",
		Object: &scaledjobv1.ScaledJob{Spec: scaledjobv1.ScaledJobSpec{MaxReplicas: new(int32(2))}},
	}}
	if on != nil {
		q.Redis = on.client
	}
	q.CountPushed(pushed)
	return q
}

func TestJobsTooManyAreTold(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(queueOf(nil, 3, seen{created: 3}).check()).To(Succeed())
	g.Expect(queueOf(nil, 3, seen{created: 4}).check()).To(MatchError("ScaledJob emails has got 4 Jobs for 3 messages"))
	g.Expect(queueOf(nil, 3, seen{created: 3, violation: "too many at once"}).check()).To(MatchError("ScaledJob emails: too many at once"))
}

func TestLostWakeUpIsTold(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	redis := redistest.New(t, redistest.Options{})
	on := &server{target: &faults.Target{Server: redis}, client: redis.Client()}
	g.Expect(redis.Client().LPush(t.Context(), "emails", 1, 2, 3).Err()).To(Succeed())
	g.Expect(queueOf(on, 3, seen{unfinished: []string{"a", "b"}}).awaitDue(t.Context())).To(Succeed(), "as many as may be")

	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	g.Expect(queueOf(on, 3, seen{unfinished: []string{"a"}}).awaitDue(soon)).
		To(MatchError(ContainSubstring("a wake-up was lost: 2 Jobs are due, and there are 1")))
}
