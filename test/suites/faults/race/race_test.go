// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package race

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/keyspace/node"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

// networkDelay is how long what is said takes from the operator to Redis. Without a
// delay the moment in which a push can get lost is very short.
const networkDelay = 2 * time.Millisecond

func TestNoWakeUpIsLost(t *testing.T) {
	t.Parallel()
	e := newEnv(t, notifications)
	operator.New(t, operator.Options{
		Cluster: control,
		Args:    []string{"--watch-namespaces=" + e.namespace, "--polling-fallback-interval=0"},
		Log:     os.Stderr,
	})
	loseNothing(t, e)
}

func TestNoWakeUpIsLostWhileKeysAreTracked(t *testing.T) {
	skip.UnderShort(t, "TestNoPushIsMissedWhateverElseChanges is the same without Kubernetes")
	t.Parallel()
	e := newEnv(t, tracked)
	startWith(t, e.namespace, all)
	loseNothing(t, e)
}

// loseNothing plays batches until there were enough pushes, and fails the test if one of them was lost.
func loseNothing(t *testing.T, e *env) {
	t.Helper()
	for pushed := 0; pushed < *pushes; {
		g := NewWithT(t)
		batch := e.newBatch((*pushes - pushed + len(stages) - 1) / len(stages))
		for _, stage := range stages {
			pushed += len(batch.scaledJobs)
			lost, err := batch.play(t.Context(), stage, timeout)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(lost).To(BeEmpty(), "pushes that nobody noticed while %s, seed %d", stage.name, *seed)
		}
		g.Expect(batch.surplus()).To(BeEmpty(), "ScaledJobs with Jobs too many, seed %d", *seed)
		g.Expect(batch.end(t.Context())).To(Succeed())
		t.Logf("%d of %d pushes noticed", pushed, *pushes)
	}
}

// The negative control: an operator that the beginning of a subscription does not wake. What was pushed between the
// last read and that moment stays unnoticed. Around a reconnect that is a tenth of a second, and many pushes are lost;
// around a first subscription some milliseconds, and a few are. The same operator that is woken, put together in the
// same way, loses nothing.
func TestControlOperatorThatIgnoresConfirmations(t *testing.T) {
	skip.UnderShort(t, "a control; TestControlWatcherThatReadsBeforeItSubscribes is enough")
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"with confirmations": func(t *testing.T) {
			t.Helper()
			for stage, lost := range losses(t, notifications, all, timeout) {
				NewWithT(t).Expect(lost).To(BeZero(), "pushes lost while %s, seed %d", stage, *seed)
			}
		},
		"without": func(t *testing.T) {
			t.Helper()
			lost := losses(t, notifications, allButConfirmations, soon)
			NewWithT(t).Expect(lost[killed]).To(BeNumerically(">", 0), "pushes lost around a reconnect, seed %d", *seed)
		},
		"without, while keys are tracked": func(t *testing.T) {
			t.Helper()
			lost := losses(t, tracked, allButConfirmations, soon)
			NewWithT(t).Expect(lost[killed]).To(BeNumerically(">", 0), "pushes lost around a reconnect, seed %d", *seed)
		},
	} {
		t.Run(name, test)
	}
}

// soon is how long a push that is probably lost is waited for.
const soon = 5 * time.Second

// losses has a batch race through all stages, and returns how many pushes each has lost.
func losses(t *testing.T, from source, through func(*enqueue.Wakes) delivery, limit time.Duration) map[string]int {
	t.Helper()
	e := newEnv(t, from)
	startWith(t, e.namespace, through)
	batch := e.newBatch(batchSize / 2)
	lost := map[string]int{}
	for _, stage := range stages {
		scaledJobs := len(batch.scaledJobs)
		unnoticed, err := batch.play(t.Context(), stage, limit)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		lost[stage.name] = len(unnoticed)
		t.Logf("while %s, %d of %d pushes were lost", stage.name, len(unnoticed), scaledJobs)
	}
	return lost
}

func newEnv(t *testing.T, from source) *env {
	t.Helper()
	g := NewWithT(t)
	t.Logf("the seed is %d", *seed)
	namespace, err := control.CreateNamespace(t.Context(), "race")
	g.Expect(err).NotTo(HaveOccurred())
	redis := redistest.New(t, redistest.Options{Log: os.Stderr, Events: from.events})
	network := tcpproxy.New(t, redis.Addr())
	network.Delay(networkDelay)
	return &env{
		namespace: namespace,
		source:    from,
		redis:     redis,
		address:   network.Addr(),
		random:    newRandom(*seed),
	}
}

// source is how the operator hears of growth.
type source struct {
	notifications scaledjobv1.NotificationMode
	// events is the server's setting, as for redistest.Options.
	events string
	// kill ends the connections of the source, and returns how many there were.
	kill func(context.Context, *redistest.Server) (int, error)
}

// notifications is the subscription to keyspace notifications.
var notifications = source{
	notifications: scaledjobv1.NotificationsEnabled,
	kill: func(ctx context.Context, server *redistest.Server) (int, error) {
		killed, err := server.Client().ClientKillByFilter(ctx, "TYPE", "pubsub").Result()
		return int(killed), err
	},
}

// tracked is the tracking of keys, as it is by default on a server that publishes nothing.
var tracked = source{
	notifications: scaledjobv1.NotificationsEnabled, events: redistest.NoEvents,
	kill: func(ctx context.Context, server *redistest.Server) (int, error) { return server.KillTracking(ctx) },
}

// restless are intervals without a rest after sessions that were killed: nothing but the next session reports what was
// pushed meanwhile.
func restless() node.Timing {
	timing := node.DefaultTiming()
	timing.ShortSession = time.Nanosecond
	return timing
}
