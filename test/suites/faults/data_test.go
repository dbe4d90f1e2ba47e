// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	goredis "github.com/redis/go-redis/v9"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

func TestFaultsOfOneQueue(t *testing.T) {
	t.Parallel()
	representatives := []string{"expiry", "RENAME to the key, away and back", `notify-keyspace-events ""`, trackedMeanwhile}
	playEach(t, queueFaults(), representatives, ofOne())
}

func TestFaultsOfOneTrackedQueue(t *testing.T) {
	t.Parallel()
	playEach(t, trackedFaults(), []string{"SWAPDB, keys tracked"}, ofOne(sjtest.Tracking))
}

// ofOne makes fixtures with one queue.
func ofOne(always ...sjtest.Change) func(*testing.T) *Fixture {
	return func(t *testing.T) *Fixture {
		t.Helper()
		fixture := newEmptyFixture(t, always...)
		add(t, fixture, "struck")
		return fixture
	}
}

// Redis notifies subscribers of these changes, but not connections for which it tracks keys: there the resync finds
// them.
func TestChangesOfConsumerGroups(t *testing.T) {
	t.Parallel()
	const entries, lastEntry = 3, "18446744073709551615-1"
	for name, c := range map[string]struct {
		changes []sjtest.Change
		look    func(q *Queue, ctx context.Context, change, fact func(context.Context) error) error
	}{
		"notifications": {nil, func(_ *Queue, ctx context.Context, change, fact func(context.Context) error) error {
			return errors.Join(change(ctx), fact(ctx))
		}},
		"keys tracked": {[]sjtest.Change{sjtest.Tracking}, func(q *Queue, ctx context.Context, change, fact func(context.Context) error) error {
			return errors.Join(q.unnoticed(ctx, change), q.polled(ctx, fact))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			fixture := newEmptyFixture(t)
			g.Expect(fixture.Target.setFlags(t.Context(), "Ktg")).To(Succeed())
			q := add(t, fixture, "stream", append(c.changes, ofGroup)...)
			q.allow(entries)
			for range entries {
				g.Expect(fixture.Target.command(t.Context(), "XADD", q.Queue, "*", "message", 1)).To(Succeed())
			}
			group := func(args ...any) func(context.Context) error {
				return func(ctx context.Context) error {
					return fixture.Target.command(ctx, append([]any{"XGROUP"}, args...)...)
				}
			}
			xsetid := func(ctx context.Context) error {
				return fixture.Target.command(ctx, "XSETID", q.Queue, lastEntry, "ENTRIESADDED", 2*entries)
			}
			noGroup := func(ctx context.Context) error {
				return q.await(ctx, unreadable(scaledjobv1.ReasonConsumerGroupNotFound))
			}
			waiting := func(depth int64) func(context.Context) error {
				return func(ctx context.Context) error { return q.await(ctx, deep(depth)) }
			}
			// A Job is due that makes the group.
			g.Expect(errors.Join(noGroup(t.Context()), q.AwaitSubscription(t.Context()), q.AwaitRest(t.Context()))).To(Succeed())
			for _, step := range []struct{ change, fact func(context.Context) error }{
				{group("CREATE", q.Queue, "workers", "$"), waiting(0)},
				{group("SETID", q.Queue, "workers", "0"), waiting(entries)},
				{xsetid, waiting(entries)},
				{group("DESTROY", q.Queue, "workers"), noGroup},
			} {
				g.Expect(c.look(q, t.Context(), step.change, step.fact)).To(Succeed())
			}
			g.Expect(q.Jobs.Sync(t.Context())).To(Succeed())
			g.Expect(q.Jobs.Created()).To(Equal(entries))
			g.Expect(q.Jobs.Violation()).To(BeEmpty())
		})
	}
}

// ofGroup makes the queue a stream with a consumer group.
func ofGroup(spec *scaledjobv1.ScaledJobSpec) {
	spec.Queues = []scaledjobv1.Queue{{
		Name: spec.QueueName, Type: scaledjobv1.QueueStream, Stream: &scaledjobv1.StreamQueue{ConsumerGroup: "workers"},
	}}
	spec.QueueName = ""
}

// The negative control of all that counts Jobs: one more does not pass.
func TestControlOneJobTooMany(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	queue := add(t, fixture, "growing")
	g.Expect(fixture.Push(t.Context())).To(Succeed())
	g.Expect(fixture.AwaitExpected(t.Context())).To(Succeed())
	g.Expect(queue.createJob(t.Context(), "one-more")).To(Succeed())
	over, err := fixture.Prove(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("unfinished ones")))
	g.Expect(over).To(Equal(1))
}

// createJob creates a Job of the ScaledJob in the operator's stead.
func (q *Queue) createJob(ctx context.Context, name string) error {
	return q.API.Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: q.Object.Namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(q.Object, scaledjobv1.GroupVersion.WithKind("ScaledJob")),
			},
		},
		Spec: q.Object.Spec.JobTemplate.Spec,
	})
}

// atNextRetry is how soon channels are heard that were forbidden: they are tried every minute.
const atNextRetry = 65 * time.Second

// Forbidden channels are tried again every minute. Only the long form waits for
// that: in the short one the resync goes on doing the work.

func TestOneChannelIsRevoked(t *testing.T) {
	t.Parallel()
	fixture := newEmptyFixture(t)
	struck, neighbour := add(t, fixture, "struck"), add(t, fixture, "neighbour")
	fault := Fault{Name: "one of two channels revoked", Promise: "it is polled, and the other is watched"}
	end := func(ctx context.Context, _ Meanwhile) error { return struck.Update(ctx, sjtest.Polling(1)) }
	if *long {
		fault.Name += ", and granted again"
		fault.Promise += ", and messages since the last poll get their Jobs at the next try"
		fault.Within, fixture.Timeout = atNextRetry, 2*atNextRetry
		end = func(ctx context.Context, meanwhile Meanwhile) error {
			return errors.Join(struck.deaf(ctx, meanwhile), fixture.Target.permit(ctx, "allchannels"))
		}
	}
	fault.Strike = func(ctx context.Context, target *Target, _ time.Duration, meanwhile Meanwhile) error {
		return errors.Join(
			target.permitChannel(ctx, neighbour), struck.forbidden(ctx, meanwhile, neighbour), end(ctx, meanwhile))
	}
	play(t, fixture, fault)
}

// forbidden pushes to a queue to whose channel the operator may not subscribe, though it is subscribed to the
// neighbour's.
func (q *Queue) forbidden(ctx context.Context, meanwhile Meanwhile, neighbour *Queue) error {
	heard := func(ctx context.Context) error {
		return errors.Join(meanwhile(ctx), neighbour.AwaitExpected(ctx))
	}
	return errors.Join(
		q.await(ctx, polling(scaledjobv1.ReasonPermissionDenied)),
		neighbour.AwaitSubscription(ctx), neighbour.await(ctx, want{mode: scaledjobv1.ModeEvents}),
		q.poll(ctx, heard))
}

// permitChannel lets the operator subscribe to the channel of this queue, and to no other. The server ends its
// connection if it is subscribed to another.
func (t *Target) permitChannel(ctx context.Context, q *Queue) error {
	return t.permit(ctx, "resetchannels", "-client|tracking", "&"+q.Channel())
}

// oddKeys are names of queues by the names of their ScaledJobs. Those that are not
// UTF-8 cannot be written in a ScaledJob.
var oddKeys = map[string]string{
	"blanks":     " a b ",
	"nul":        "a\x00b",
	"before-nul": "a",
	"lines":      "a\r\nLLEN b",
	"star":       "*",
	"glob":       "[a-z]?*{b}\\",
	"utf-8":      "日本語:é😀",
	"prefix":     "__keyspace@0__:*",
	"longest":    strings.Repeat("é", 512),
}

func TestOddKeysAreTakenLiterally(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	several := 0
	for name, key := range oddKeys {
		q := add(t, fixture, name, func(spec *scaledjobv1.ScaledJobSpec) { spec.QueueName = key })
		several++
		g.Expect(q.Push(t.Context(), several)).To(Succeed(), "each has other messages")
	}
	fault := named(t, "connections reset, new ones refused")
	fault.Name += ", odd keys"
	play(t, fixture, fault)
}

// The negative control: by a pattern, the key of that name gives no notification.
func TestControlSubscriptionToAPattern(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	queue := add(t, fixture, "glob", func(spec *scaledjobv1.ScaledJobSpec) { spec.QueueName = oddKeys["glob"] })
	client := goredis.NewClient(&goredis.Options{Addr: fixture.Target.Addr()})
	t.Cleanup(func() { g.Expect(client.Close()).To(Succeed()) })
	pattern := client.PSubscribe(t.Context(), queue.Channel(), "marker")
	for range 2 { // confirmations
		g.Expect(pattern.Receive(t.Context())).To(BeAssignableToTypeOf(&goredis.Subscription{}))
	}
	g.Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
	g.Expect(fixture.Push(t.Context())).To(Succeed())
	g.Expect(fixture.AwaitExpected(t.Context())).To(Succeed())
	g.Expect(fixture.Target.command(t.Context(), "PUBLISH", "marker", "next")).To(Succeed())
	g.Expect(pattern.Receive(t.Context())).To(HaveField("Payload", "next"))
}
