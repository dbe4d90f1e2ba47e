// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"net"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// The status is old, and Redis is read now. Its address in the cluster can't be reached from here.
func TestExplainLiveReadsRedis(t *testing.T) {
	t.Parallel()
	g, namespace, server := NewWithT(t), newEmails(t, "{}"), redistest.New(t, redistest.Options{})
	for range 61 {
		g.Expect(server.Client().RPush(t.Context(), "emails", "a").Err()).To(Succeed())
	}
	is := explained(t, g, "emails", "-n", namespace, "--live", "--redis-address", server.Addr())
	g.Expect(is.Unreadable).To(BeEmpty())
	g.Expect(is.Live).To(BeTrue())
	g.Expect(is.Outstanding).To(HaveValue(BeEquivalentTo(61)))
	g.Expect(is.Arithmetic).To(ContainElement("ceil(61 / 10) = 7"))
	g.Expect(is.Desired).To(HaveValue(BeEquivalentTo(7)))
	g.Expect(run(t, "explain", "emails", "-n", namespace, "--live", "--redis-address", server.Addr()).out).To(ContainSubstring("Messages, read from Redis now"))

	// Which entries of a stream wait is not in the status.
	newScaledJob(t, namespace, "events", "{queueName: '', queues: [{name: events, type: Stream, stream: {consumerGroup: workers}}], "+
		"scalingStrategy: {type: Accurate}}", "{queueDepth: 3, desiredJobs: 1, mode: Events, queues: [{name: events, depth: 3}]}")
	for range 3 {
		g.Expect(server.Client().XAdd(t.Context(), &redis.XAddArgs{Stream: "events", Values: []string{"a", "b"}}).Err()).To(Succeed())
	}
	g.Expect(server.Client().XGroupCreate(t.Context(), "events", "workers", "0").Err()).To(Succeed())
	is = explained(t, g, "events", "-n", namespace, "--live", "--redis-address", server.Addr())
	g.Expect(is.Arithmetic).To(ContainElement("0 claimed + ceil(3 / 10) = 1"))
}

// What can't be read from Redis is said, and the rest is explained from the status. A server that accepts connections
// and says nothing keeps nobody waiting.
func TestExplainLiveWithoutRedis(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"nobody listens": false, "a server that hangs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, namespace := NewWithT(t), newEmails(t, "{}")
			listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(g)
			defer listener.Close()
			if !hangs {
				g.Expect(listener.Close()).To(Succeed())
			}
			is := explained(t, g, "emails", "-n", namespace, "--live", "--redis-address", listener.Addr().String())
			g.Expect(is.Live).To(BeFalse())
			g.Expect(is.Outstanding).To(HaveValue(BeEquivalentTo(47)))
			g.Expect(is.Unreadable).To(ConsistOf(And(HavePrefix("Redis, so the messages are those of the status: "), ContainSubstring("--redis-address"))))
		})
	}
}

// The password is read with the permissions of the user, and never printed.
func TestExplainLiveUsesTheSecretsOfTheUser(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	namespace := control.NewNamespace(t, "cli")
	g.Expect(server.Client().RPush(t.Context(), "emails", "a", "b").Err()).To(Succeed())
	g.Expect(server.Client().ConfigSet(t.Context(), "requirepass", "open-sesame").Err()).To(Succeed())
	g.Expect(admin.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis"}, StringData: map[string]string{"password": "open-sesame"},
	})).To(Succeed())
	newScaledJob(t, namespace, "emails", "{redisAddress: '', redis: {addresses: ['redis.example.svc:6379'], auth: {passwordSecretRef: {name: redis}}, "+
		"tls: {mode: Disabled}}}", healthy)
	is := run(t, "explain", "emails", "-n", namespace, "--live", "--redis-address", server.Addr())
	g.Expect(is.code).To(BeZero(), is.errOut)
	g.Expect(is.out).To(And(ContainSubstring("for 2 messages outstanding"), Not(ContainSubstring("open-sesame"))))

	viewer := newUser(t, namespace, "view")
	g.Eventually(func() int { return run(t, "explain", "emails", "-n", namespace, viewer).code }).Should(BeZero())
	explanation := explained(t, g, "emails", "-n", namespace, "--live", "--redis-address", server.Addr(), viewer)
	g.Expect(explanation.Unreadable).To(ContainElement(ContainSubstring(`You may not read the Secret "redis".`)))
	g.Expect(explanation.Outstanding).To(HaveValue(BeEquivalentTo(47)))
}

// Through a forwarded port, the certificate is still for the address in the spec.
func TestExplainLiveThroughAForwardedPort(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var address string
	p := newPatientWith(t, func(d *deployment) string {
		spec := d.secured(func(by *certificates.Authority) certificates.Pair { return by.Server(t, "redis.live.svc") })
		address = regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(spec)
		return strings.Replace(spec, address, "redis.live.svc:6379", 1)
	})
	is := explained(t, g, p.name, "-n", p.namespace, "--live", "--redis-address", address)
	g.Expect(is.Unreadable).To(BeEmpty())
	g.Expect(is.Outstanding).To(HaveValue(BeZero()))
}

// Ctrl-C ends a command that waits for a server.
func TestInterruptedAtAServerThatHangs(t *testing.T) {
	t.Parallel()
	namespace := newEmails(t, "{}")
	for _, command := range []string{"explain emails --live", "doctor emails"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(g)
			t.Cleanup(func() { _ = listener.Close() })
			ctx, interrupt := context.WithCancel(t.Context())
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					if n, _ := conn.Read(make([]byte, 1)); n > 0 {
						interrupt()
					}
				}
			}()
			args := append(strings.Fields(command), "-n", namespace, "--redis-address="+listener.Addr().String())
			g.Expect(runUntil(ctx, args...)).To(Equal(answer{errOut: "error: Interrupted.\n", code: 130}))
		})
	}
}
