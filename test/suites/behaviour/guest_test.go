// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

const (
	// mostClients is how many clients a small Redis server takes, and waiting how many workers wait for messages there.
	mostClients = 20
	waiting     = 12
	// guestQueues is how many ScaledJobs have queues on the server, and guestDelay how far away it is, each way: so
	// many reads are under way at the same time.
	guestQueues = 40
	guestDelay  = 10 * time.Millisecond
)

// guests is a small Redis server with waiting workers.
type guests struct {
	*scaledJob

	all []*scaledJob
}

func newGuests(t *testing.T, args ...string) *guests {
	t.Helper()
	server := redistest.New(t, redistest.Options{Events: allEvents, Args: []string{"--maxclients", strconv.Itoa(mostClients)}})
	proxy := tcpproxy.New(t, server.Addr())
	proxy.Delay(guestDelay)
	s := newScaledJobIn(t, withoutOperator, server)
	s.Address = proxy.Addr()
	var workers sync.WaitGroup
	t.Cleanup(workers.Wait)
	for range waiting {
		workers.Go(func() { waitForMessages(t.Context(), server.Addr()) })
	}
	g := &guests{scaledJob: s}
	for i := range guestQueues {
		one := s.another(fmt.Sprint("guest-", i))
		one.Create(sjtest.Polling(sjtest.Never), func(spec *scaledjobv1.ScaledJobSpec) {
			spec.QueueName = ""
			spec.Queues = []scaledjobv1.Queue{{Name: one.Queue}, {Name: one.Queue + ":high"}}
		})
		g.all = append(g.all, one)
	}
	s.Operator = s.operate(args...)
	s.Eventually(g.workersWaiting).Should(Equal(waiting))
	return g
}

// waitForMessages waits like a worker for messages that never come, and connects again whenever it is disconnected.
func waitForMessages(ctx context.Context, address string) {
	for ctx.Err() == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			_, _ = io.WriteString(conn, "BLPOP orders 0\r\n")
			_, _ = bufio.NewReader(conn).ReadString('\n')
			stop()
			_ = conn.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}

// stat returns a number of INFO.
func (g *guests) stat(section, name string) (int, error) {
	text, err := g.Redis.Info(g.t.Context(), section).Result()
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(name + `:(\d+)`).FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("INFO has no %s", name)
	}
	return strconv.Atoi(found[1])
}

func (g *guests) workersWaiting() (int, error) { return g.stat("clients", "blocked_clients") }

func (g *guests) rejected() (int, error) { return g.stat("stats", "rejected_connections") }

// burst pushes messages to each queue at the same moment, and waits until the ScaledJobs have so many Jobs together.
func (g *guests) burst(messages, jobs int) {
	g.t.Helper()
	pipe := g.Redis.Pipeline()
	for _, one := range g.all {
		for i := range messages {
			pipe.LPush(g.t.Context(), one.Queue, i)
		}
	}
	g.Expect(pipe.Exec(g.t.Context())).Error().NotTo(HaveOccurred())
	g.Eventually(g.jobsEver).Should(Equal(jobs))
}

// The operator is one client of many of a small Redis server. Nobody is turned away because of it, also when all
// connect again after a restart.
func TestOperatorIsAGuestOfASmallServer(t *testing.T) {
	t.Parallel()
	g := newGuests(t)
	for _, one := range g.all {
		one.AwaitSubscription()
	}
	g.burst(1, guestQueues)
	g.Expect(g.rejected()).To(BeZero())
	g.Expect(g.redis.Restart(t.Context())).To(Succeed())
	g.Eventually(g.workersWaiting).Should(Equal(waiting))
	for _, one := range g.all {
		one.AwaitSubscription()
	}
	g.burst(2, 2*guestQueues) // One of the messages is for the Job from before.
	g.Expect(g.rejected()).To(BeZero())
}

// The control: with as many connections as there may be reads, the server turns clients away.
func TestControlOperatorWithManyConnections(t *testing.T) {
	t.Parallel()
	g := newGuests(t, "--redis-connections-per-server=64")
	g.burst(1, guestQueues)
	g.Expect(g.rejected()).To(BeNumerically(">", 0))
}
