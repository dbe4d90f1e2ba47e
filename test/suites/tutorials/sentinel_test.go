// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tutorials

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// serverName is in the certificates, instead of the addresses.
const serverName = "redis.example"

// behindSentinels are a master, a replica and three sentinels, which speak TLS and have the users that the page creates
// for the worker, and the worker of the page.
type behindSentinels struct {
	*worker

	deployment *redistest.Replicated
	env        []string
}

func newBehindSentinels(t *testing.T) *behindSentinels {
	t.Helper()
	g := NewWithT(t)
	by := certificates.NewAuthority(t)
	authority := filepath.Join(t.TempDir(), "ca.crt")
	g.Expect(os.WriteFile(authority, by.Certificate(), 0o600)).To(Succeed())
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{
		Replicas: 1,
		Options: redistest.Options{
			TLS: &redistest.TLS{Server: by.Peer(t, serverName)}, Args: []string{"--tls-replication", "yes", "--tls-ca-cert-file", authority},
		},
		SentinelConfig: []string{"tls-replication yes", "tls-ca-cert-file " + authority},
	})
	users := regexp.MustCompile(`(?m)^ACL SETUSER worker on .*$`).FindAllString(readPage(t, behindSentinel), -1)
	g.Expect(users).To(HaveLen(2))
	for i, servers := range [][]*redistest.Server{r.Servers, r.Sentinels} {
		var command []any
		for word := range strings.FieldsSeq(users[i]) {
			command = append(command, word)
		}
		for _, server := range servers {
			g.Expect(server.Client().Do(t.Context(), command...).Err()).To(Succeed())
		}
	}
	return &behindSentinels{
		worker:     &worker{WithT: g, t: t, redis: r.Servers[0], command: []string{filepath.Join(built, "sentinel")}, queue: "events"},
		deployment: r,
		env: []string{
			"SENTINELS=" + strings.Join(r.Addresses(), ","), "MASTER=" + redistest.MasterName, "STREAM=events", "GROUP=workers",
			"CA=" + authority, "TLS_SERVER_NAME=" + serverName, "REDIS_USERNAME=worker", "REDIS_PASSWORD=PASSWORD",
			"SENTINEL_USERNAME=worker", "SENTINEL_PASSWORD=PASSWORD",
		},
	}
}

// add adds an entry.
func (b *behindSentinels) add(sleep string) {
	b.t.Helper()
	entry := &redis.XAddArgs{Stream: b.queue, Values: map[string]any{"sleep": sleep}}
	b.Expect(b.redis.Client().XAdd(b.t.Context(), entry).Err()).To(Succeed())
}

func (b *behindSentinels) work(job string) *container {
	b.t.Helper()
	return b.start(job, b.env...)
}

// entries returns what the stream contains, for whom it is pending, and what failed.
func (b *behindSentinels) entries() (stream []redis.XMessage, pending int64, failed []string) {
	b.t.Helper()
	client, ctx := b.redis.Client(), b.t.Context()
	stream = must.Get(client.XRange(ctx, b.queue, "-", "+").Result())(b)
	group := must.Get(client.XPending(ctx, b.queue, "workers").Result())(b)
	entries := must.Get(client.XRange(ctx, b.queue+":failed", "-", "+").Result())(b)
	for _, entry := range entries {
		failed = append(failed, entry.Values["sleep"].(string))
	}
	return stream, group.Count, failed
}

// One entry after the other: one is done, one fails, and the workers of one are terminated and die. In the end another
// server is the master.
func TestWorkerBehindSentinel(t *testing.T) {
	t.Parallel()
	b := newBehindSentinels(t)
	b.Expect(b.work("first").code()).To(Equal(succeeded), "there is no stream, no group and no entry")
	b.add("0s")
	b.add("nonsense")
	b.add("600s")
	b.Expect(b.work("a").code()).To(Equal(succeeded))
	b.Expect(b.work("b").code()).To(Equal(messageFailed))
	b.Expect(b.work("c").at("600s").terminate().code()).To(Equal(terminated))
	_, pending, _ := b.entries()
	b.Expect(pending).To(BeEquivalentTo(1), "the entry counts until it is done")

	for range 3 {
		b.work("d").at("600s").crash()
	}
	last := b.work("d")
	b.Expect(last.code()).To(Equal(messageFailed))
	b.Expect(last.processed()).To(BeEmpty())
	stream, pending, failed := b.entries()
	b.Expect(stream).To(BeEmpty())
	b.Expect(pending).To(BeZero())
	b.Expect(failed).To(Equal([]string{"nonsense", "600s"}))
	consumers := must.Get(b.redis.Client().XInfoConsumers(t.Context(), b.queue, "workers").Result())(b)
	b.Expect(consumers).To(ConsistOf(HaveField("Name", "c")), "only a Job that did not end its entry leaves a consumer behind")

	b.Expect(b.redis.Client().Wait(t.Context(), 1, timeout).Err()).To(Succeed())
	b.Expect(b.deployment.Failover(t.Context(), b.deployment.Sentinels[0])).To(Succeed())
	b.redis = b.deployment.Servers[1]
	b.Eventually(func() (string, error) { return b.redis.Client().Info(t.Context(), "replication").Result() }).
		Should(ContainSubstring("role:master"))
	b.add("0s")
	// A worker that a sentinel still leads to the old master finds no entry, and succeeds.
	b.Eventually(func() []redis.XMessage {
		b.work("e").code()
		stream, _, _ = b.entries()
		return stream
	}).Should(BeEmpty())
}
