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
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

const (
	// many ScaledJobs name one dead server.
	many = 50
	// outage is how long the dials to it are counted.
	outage = 5 * time.Second
)

// Whether it resets all connections or never answers, one dials it for all.
func TestDeadServerIsDialledForAll(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *tcpproxy.Proxy{"resets": newResetting, "never answers": newSilent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			dead := start(t)
			begun := time.Now()
			named := createNaming(t, dead.Addr(), many)
			g.Eventually(unreachable).WithArguments(t.Context(), named).WithTimeout(timeout).Should(Equal(many))
			g.Expect(sjtest.Pause(t.Context(), time.Until(begun.Add(outage)))).To(Succeed())
			g.Expect(dead.Dials()).To(And(BeNumerically(">", 1), BeNumerically("<=", mostDials(time.Since(begun)))))
		})
	}
}

// The negative control: a client of its own for each, which tries once a second.
func TestControlOneClientForEachScaledJob(t *testing.T) {
	t.Parallel()
	dead := newResetting(t)
	begun := time.Now()
	var clients sync.WaitGroup
	for range many {
		clients.Go(func() {
			own := goredis.NewClient(&goredis.Options{Addr: dead.Addr(), MaxRetries: -1, DialerRetries: 1})
			defer func() { _ = own.Close() }()
			for time.Since(begun) < outage && sjtest.Pause(t.Context(), time.Second) == nil {
				_ = own.Ping(t.Context()).Err()
			}
		})
	}
	clients.Wait()
	NewWithT(t).Expect(dead.Dials()).To(BeNumerically(">", mostDials(time.Since(begun))))
}

// mostDials is how many attempts the backoff allows within a time: the waits double
// from 250 ms to 10 s. Chance takes away half of them at most, and leaves 250 ms.
func mostDials(within time.Duration) int {
	const leastWait, longestWait = 250 * time.Millisecond, 10 * time.Second
	dials := 1
	for wait := leastWait; ; wait = min(2*wait, longestWait) {
		within -= max(wait/2, leastWait)
		if within < 0 {
			return dials
		}
		dials++
	}
}

// While more servers never answer than the operator has workers, those with healthy
// ones are served, by events and by the resync.
func TestSilentServersHoldUpNobodyElse(t *testing.T) {
	skip.UnderShort(t, "TestStrangersHarmNobody has such servers, and internal/redis/connection tests them")
	t.Parallel()
	const silentServers, each, resyncs = 40, 2, 3
	g := NewWithT(t)
	fixture := newEmptyFixture(t)
	add(t, fixture, "heard")
	polled := add(t, fixture, "polled", func(spec *scaledjobv1.ScaledJobSpec) {
		spec.Notifications, spec.PollingIntervalSeconds = scaledjobv1.NotificationsDisabled, 1
	})
	var namespaces []string
	for range silentServers {
		namespaces = append(namespaces, createNaming(t, newSilent(t).Addr(), each))
	}
	for _, named := range namespaces {
		g.Eventually(unreachable).WithArguments(t.Context(), named).WithTimeout(timeout).Should(Equal(each))
	}
	g.Expect(fixture.Push(t.Context())).To(Succeed())
	g.Expect(fixture.AwaitExpected(t.Context())).To(Succeed())
	resynced, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	g.Expect(polled.AwaitReconciles(resynced, resyncs)).To(Succeed())
}

// newResetting starts a server that resets all connections: nobody is behind it.
func newResetting(t *testing.T) *tcpproxy.Proxy {
	t.Helper()
	return tcpproxy.New(t, "127.0.0.1:1")
}

// newSilent starts a server that takes all connections and never answers.
func newSilent(t *testing.T) *tcpproxy.Proxy {
	t.Helper()
	silent := tcpproxy.New(t, redistest.New(t, redistest.Options{}).Addr())
	silent.Hold(tcpproxy.Both)
	return silent
}

// createNaming makes ScaledJobs that name the server in a namespace of their own,
// which it returns. They go with the test.
func createNaming(t *testing.T, address string, count int) (namespace string) {
	t.Helper()
	g := NewWithT(t)
	namespace = must.Get(shared.Control.CreateNamespace(t.Context(), "cost"))(g)
	t.Cleanup(func() {
		g.Expect(shared.API.DeleteAllOf(context.WithoutCancel(t.Context()), &scaledjobv1.ScaledJob{},
			client.InNamespace(namespace))).To(Succeed())
	})
	for i := range count {
		g.Expect(shared.API.Create(t.Context(), &scaledjobv1.ScaledJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("named-%d", i)},
			Spec: scaledjobv1.ScaledJobSpec{
				QueueName: fmt.Sprintf("queue-%d", i), RedisAddress: address, Threshold: 1,
				PollingIntervalSeconds: 5, JobTemplate: jobwatch.IdleJob(),
			},
		})).To(Succeed())
	}
	return namespace
}

// unreachable is how many ScaledJobs of the namespace report that their server is.
func unreachable(ctx context.Context, namespace string) (count int, err error) {
	var list scaledjobv1.ScaledJobList
	err = shared.API.List(ctx, &list, client.InNamespace(namespace))
	for i := range list.Items {
		connected := apimeta.FindStatusCondition(list.Items[i].Status.Conditions, scaledjobv1.ConditionQueueConnected)
		if connected != nil && connected.Reason == scaledjobv1.ReasonUnreachable {
			count++
		}
	}
	return count, err
}
