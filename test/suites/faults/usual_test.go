// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	goredis "github.com/redis/go-redis/v9"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// deafness is how long a wake-up must not come to be deemed lost. The operator
// would have found what is wrong by then.
const deafness = atNextPing + 3*time.Second

// The negative control: before the same fault and the same oracle, the watcher
// that one writes first loses wake-ups.
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

// usual is the watcher that one writes first. It creates the Jobs itself, and
// exactly: only wake-ups can get lost.
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

// leftToOthers keeps the operator from creating Jobs, and from subscribing: it would be
// taken for another.
func leftToOthers(spec *scaledjobv1.ScaledJobSpec) {
	spec.Suspend, spec.Notifications = true, scaledjobv1.NotificationsDisabled
}

// start subscribes in the background, and looks at the queue at each message until
// the test ends.
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
