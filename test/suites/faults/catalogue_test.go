// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	goredis "github.com/redis/go-redis/v9"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// halfASecond bounds what is promised about Jobs while subscribers are killed.
const halfASecond = 500 * time.Millisecond

func TestRedisFaults(t *testing.T) {
	t.Parallel()
	representatives := []string{
		"SIGSTOP", "half-open in both directions", "network down", "subscribers killed every 100 ms",
		"maxclients reached, operator not connected", "a message is cut off half-way",
	}
	playEach(t, Catalogue(), representatives, func(t *testing.T) *Fixture {
		t.Helper()
		return newFixture(t)
	})
}

func TestRedisFaultsWhileKeysAreTracked(t *testing.T) {
	t.Parallel()
	faults := tracked(slices.DeleteFunc(Catalogue(), func(fault Fault) bool { return fault.OfSubscribers }))
	playEach(t, faults, []string{"half-open in both directions, keys tracked"}, func(t *testing.T) *Fixture {
		t.Helper()
		return newFixture(t, sjtest.Tracking)
	})
}

func TestRedisFaultsFromTheStart(t *testing.T) {
	t.Parallel()
	atStart := slices.DeleteFunc(Catalogue(), func(fault Fault) bool { return !fault.AtStart })
	for _, fault := range skip.AllButNamed(t, atStart, nameOf, "kill -9, restarted empty") {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			fixture := newEmptyFixture(t)
			row, err := fixture.PlayStart(t.Context(), fault, lasting(fault), func(context.Context) error {
				add(t, fixture, "growing")
				add(t, fixture, "capped", sjtest.AtMost(capacity))
				return nil
			})
			conclude(t, fixture, row, err, fault.Within)
		})
	}
}

// Jobs change during this fault, so that the operator reads the queues and gets no answer.
func TestRedisFaultAfterFailedReads(t *testing.T) {
	skip.UnderShort(t, "TestRedisFaults has the same fault, without the reads")
	t.Parallel()
	fixture := newFixture(t)
	fault := named(t, "SIGSTOP")
	strike := fault.Strike
	fault.Name += ", read meanwhile"
	fault.Strike = func(ctx context.Context, target *Target, lasting time.Duration, meanwhile Meanwhile) error {
		return strike(ctx, target, lasting, func(ctx context.Context) error {
			return errors.Join(fixture.each(ctx, func(q *Queue, ctx context.Context) error { return q.Nudge(ctx, 1) }), meanwhile(ctx))
		})
	}
	play(t, fixture, fault)
}

// Messages come one by one, each when the Job of the one before is there.
func TestJobsComeSoonWhileSubscribersAreKilled(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	pushes := 20
	if *long {
		pushes = 200
	}
	queue := add(t, fixture, "growing", sjtest.AtMost(int32(pushes)))
	g.Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
	fault := named(t, "subscribers killed every 100 ms")
	var latencies []time.Duration
	err := fault.Strike(t.Context(), fixture.Target, 0, func(ctx context.Context) error {
		for i := range pushes {
			if err := errors.Join(sjtest.Pause(ctx, rand.N(killInterval)), queue.Push(ctx, 1)); err != nil {
				return err
			}
			pushed := time.Now()
			if err := fixture.AwaitExpected(ctx); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
			latencies = append(latencies, time.Since(pushed))
		}
		return nil
	})
	g.Expect(err).NotTo(HaveOccurred())
	slices.Sort(latencies)
	row := jobwatch.Row{Fault: fault.Name + ", p95 from push to Job", Promise: fault.Promise, Recovery: latencies[len(latencies)*95/100]}
	conclude(t, fixture, row, nil, halfASecond)
}

func nameOf(fault Fault) string { return fault.Name }

// lasting is how long a fault lasts in this form of the tests.
func lasting(fault Fault) time.Duration {
	if *long {
		return fault.Long
	}
	return fault.Short
}

// playEach plays each fault in a fixture to itself, with -short only the representatives.
func playEach(t *testing.T, faults []Fault, representatives []string, newFixture func(*testing.T) *Fixture) {
	t.Helper()
	for _, fault := range skip.AllButNamed(t, faults, nameOf, representatives...) {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			play(t, newFixture(t), fault)
		})
	}
}

// play plays a fault once somebody listens to all queues, and concludes.
func play(t *testing.T, fixture *Fixture, fault Fault) {
	t.Helper()
	NewWithT(t).Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
	row, err := fixture.Play(t.Context(), fault, lasting(fault))
	conclude(t, fixture, row, err, fault.Within)
}

// conclude holds what came of a fault against what was promised, and notes it.
func conclude(t *testing.T, fixture *Fixture, row jobwatch.Row, err error, within time.Duration) {
	t.Helper()
	g := NewWithT(t)
	if err == nil {
		row.Over, err = fixture.Prove(t.Context())
	}
	table.Add(row)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(row.Lost).To(BeZero(), "Jobs that did not come")
	g.Expect(row.Over).To(BeZero(), "Jobs that were not due")
	if *long {
		g.Expect(row.Recovery).To(BeNumerically("<=", cmp.Or(within, atNextAttempt)))
	}
}

func TestFaultsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	seen := map[string]bool{}
	for _, fault := range slices.Concat(Catalogue(), queueFaults(), trackedFaults()) {
		g.Expect(seen).NotTo(HaveKey(fault.Name))
		g.Expect(fault.Promise).NotTo(BeEmpty(), fault.Name)
		seen[fault.Name] = true
	}
}

const (
	// leastBetweenWakes is how long notifications of one queue are gathered before they have the operator look again.
	leastBetweenWakes = 25 * time.Millisecond
	// otherReconciles are those that have other causes.
	otherReconciles = 20
	// manyForgeries are more than there may be reconciles, however slow the machine is.
	manyForgeries = 20_000
)

// However many notifications there are, they cost a few reconciles, and no Job.
func TestForgedNotificationsCostFewReconciles(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	queue := add(t, fixture, "growing")
	g.Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
	g.Expect(fixture.Push(t.Context())).To(Succeed())
	g.Expect(fixture.AwaitExpected(t.Context())).To(Succeed())
	g.Expect(fixture.AwaitRest(t.Context())).To(Succeed())
	before := must.Get(queue.Reconciles(t.Context()))(g)

	began := time.Now()
	forged := 0
	for forged < manyForgeries {
		g.Expect(fixture.Target.publish(t.Context(), forgedAtOnce, nonsense...)).To(Succeed())
		forged += forgedAtOnce * len(nonsense)
	}
	g.Expect(fixture.AwaitRest(t.Context())).To(Succeed())
	atMost := int(time.Since(began)/leastBetweenWakes) + otherReconciles

	after := must.Get(queue.Reconciles(t.Context()))(g)
	t.Logf("%d forged notifications cost %d reconciles, and %d are allowed", forged, after-before, atMost)
	g.Expect(after).To(BeNumerically(">", before), "they came")
	g.Expect(after - before).To(BeNumerically("<=", atMost))
	g.Expect(forged).To(BeNumerically(">", atMost), "one reconcile each would be too many")
	g.Expect(fixture.Prove(t.Context())).To(BeZero())
}

// deafness is how long to wait before a wake-up counts as lost. The operator would have found what is wrong by then.
const deafness = atNextPing + 3*time.Second

// The control: a watcher that reads the queue before it subscribes loses wake-ups under the same fault.
func TestControlWatcherThatReadsBeforeItSubscribes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fixture, watcher := newUsual(t)
	g.Expect(watcher.look(t.Context())).To(Succeed())
	fault := named(t, "network down")
	row, err := fixture.PlayStart(t.Context(), fault, fault.Short, func(context.Context) error {
		watcher.start(t)
		return nil
	})
	g.Expect(err).To(MatchError(ContainSubstring("after the fault")))
	g.Expect(row.Lost).To(BeNumerically(">", 0))
	// It works: it hears of what comes next.
	g.Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
	g.Expect(fixture.Push(t.Context())).To(Succeed())
	g.Expect(fixture.AwaitExpected(t.Context())).To(Succeed())
}

func named(t *testing.T, name string) Fault {
	t.Helper()
	for _, fault := range Catalogue() {
		if fault.Name == name {
			return fault
		}
	}
	t.Fatalf("no fault is called %q", name)
	return Fault{}
}

// usual is the watcher that one writes first. It creates the Jobs itself, and exactly: only wake-ups can get lost.
type usual struct {
	client *goredis.Client
	queue  *Queue
}

// newUsual makes a fixture with one queue, which is left to a usual watcher.
func newUsual(t *testing.T) (*Fixture, *usual) {
	t.Helper()
	fixture := newEmptyFixture(t)
	fixture.Timeout = deafness
	queue := add(t, fixture, "usual", leftToOthers)
	watcher := &usual{client: goredis.NewClient(&goredis.Options{Addr: fixture.Target.Addr()}), queue: queue}
	t.Cleanup(func() { NewWithT(t).Expect(watcher.client.Close()).To(Succeed()) })
	return fixture, watcher
}

// leftToOthers keeps the operator from creating Jobs, and from subscribing: it would be taken for another.
func leftToOthers(spec *scaledjobv1.ScaledJobSpec) {
	spec.Suspend, spec.Notifications = true, scaledjobv1.NotificationsDisabled
}

// start subscribes in the background, and looks at the queue at each message until the test ends.
func (u *usual) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		messages := u.client.Subscribe(ctx, "__keyspace@0__:"+u.queue.Object.Spec.QueueName)
		defer func() { _ = messages.Close() }()
		for {
			select {
			case <-messages.Channel():
				if err := u.look(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("the usual watcher: %v", err)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// look creates the Jobs that are due.
func (u *usual) look(ctx context.Context) error {
	depth, err := u.client.LLen(ctx, u.queue.Object.Spec.QueueName).Result()
	if err != nil {
		return err
	}
	for i := range depth {
		err := u.queue.createJob(ctx, fmt.Sprintf("%s-%d", u.queue.Object.Name, i))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}
