// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const (
	// clusters is how many Redis Clusters a namespace names: as many servers as it may use.
	clusters = 64
	// mastersEach is how many masters each of them announces, and keysEach how many keys most ScaledJobs name.
	mastersEach = 256
	keysEach    = 16
	onClusters  = 200
	// settling is how long the test looks whether more masters are asked.
	settling = 20 * time.Second
)

// announcing are Clusters of which each node announces 256 masters. Node 127.<cluster>.<master>.1 is the same as all
// others: one listener answers for all addresses.
type announcing struct {
	port int

	mu sync.Mutex
	// asked has the addresses of the nodes that were asked for a key or for a channel.
	asked map[string]bool
}

func newAnnouncing(t *testing.T) *announcing {
	t.Helper()
	listener := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp4", "0.0.0.0:0"))(NewWithT(t))
	a := &announcing{port: listener.Addr().(*net.TCPAddr).Port, asked: map[string]bool{}}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { a.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		open.Wait()
	})
	return a
}

func (a *announcing) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	node, _, _ := net.SplitHostPort(conn.LocalAddr().String())
	for reader := bufio.NewReader(conn); ; {
		args, err := redistest.ReadCommand(reader)
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, a.answer(node, args)); err != nil {
			return
		}
	}
}

func (a *announcing) answer(node string, args []string) string {
	switch args[0] {
	case "llen", "subscribe":
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked[node] = true
	case "client":
		return "+OK\r\n"
	case "cluster":
		if args[1] == "slots" {
			return a.slots(strings.Split(node, ".")[1])
		}
		return "-ERR unknown subcommand\r\n"
	}
	return redistest.UsualAnswer(args)
}

// slots is the reply to CLUSTER SLOTS.
func (a *announcing) slots(cluster string) string {
	const slots = 16384 / mastersEach
	var reply strings.Builder
	_, _ = fmt.Fprintf(&reply, "*%d\r\n", mastersEach)
	for master := range mastersEach {
		host := fmt.Sprintf("127.%s.%d.1", cluster, master)
		_, _ = fmt.Fprintf(&reply, "*3\r\n:%d\r\n:%d\r\n*2\r\n$%d\r\n%s\r\n:%d\r\n", master*slots, master*slots+slots-1, len(host), host, a.port)
	}
	return reply.String()
}

// masters is how many masters were asked for keys or channels.
func (a *announcing) masters() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

// scaledJobsOn are ScaledJobs of one namespace, each with keys in one of the Clusters, and one of another namespace.
func (a *announcing) scaledJobsOn(count int, redis string) contents {
	others := scaledJobs(count, redis, longString, false)
	write := others.write
	others.write = func(to io.Writer, i int, onlyMetadata bool) {
		if i == 0 || onlyMetadata {
			write(to, i, onlyMetadata)
			return
		}
		var queues []string
		keys := keysEach
		if i <= clusters {
			keys = 1
		}
		for key := range keys {
			queues = append(queues, fmt.Sprintf(`{"name":"queue-%d-%d","threshold":1}`, i, key))
		}
		_, _ = fmt.Fprintf(to, `{"apiVersion":"batch.miracle.dev/v1","kind":"ScaledJob","metadata":{"name":"sj-%d","namespace":%q,
			"uid":"uid-%d","resourceVersion":"%d","generation":1},"spec":{"redis":{"mode":"Cluster","addresses":["127.%d.0.1:%d"]},
			"queues":[%s],"maxReplicas":5,"pollingIntervalSeconds":30,
			"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"worker","image":"worker:1"}]}}}}}}`,
			i, namespaceOf(i, false), i, i%900+1, 1+i%clusters, a.port, strings.Join(queues, ","))
	}
	return others
}

// A namespace that names Clusters of very many masters makes the operator hold no more servers than the namespace may
// use.
func TestMastersOfManyClusters(t *testing.T) {
	g := NewWithT(t)
	redis, nodes := redistest.New(t, redistest.Options{}), newAnnouncing(t)
	server := newAPIServer(t, cronJobs(0), nodes.scaledJobsOn(onClusters+1, redis.Addr()))
	g.Expect(redis.Client().LPush(t.Context(), "sj-0", 1, 2).Err()).To(Succeed())

	running := startShipped(t, operator.Options{Config: &rest.Config{Host: server.URL}})

	g.Eventually(server.jobsOf("neighbour/sj-0")).Should(Equal(2))
	g.Eventually(server.reports()).Should(Equal(onClusters + 1))
	g.Eventually(nodes.masters).Should(BeNumerically(">=", keysEach), "some are asked for keys")
	g.Consistently(nodes.masters).WithTimeout(settling).Should(BeNumerically("<=", clusters), "and not more than the namespace may use")
	t.Logf("%d masters", nodes.masters())
	expectWithinLimit(t, running)
}
