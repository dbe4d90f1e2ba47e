// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unique"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// changingSecret has a password that changes.
type changingSecret struct{ value atomic.Pointer[string] }

func (s *changingSecret) set(password string) { s.value.Store(&password) }

func (s *changingSecret) Read(context.Context, string, string) (map[string][]byte, error) {
	return map[string][]byte{"password": []byte(*s.value.Load())}, nil
}

// subscribers returns the IDs of the connections with which a user has subscribed to channels.
func subscribers(ctx context.Context, client *redis.Client, user string) (ids []string) {
	for line := range strings.Lines(client.ClientList(ctx).Val()) {
		if fields := strings.Fields(line); slices.Contains(fields, "user="+user) && strings.Contains(line, " flags=P") {
			ids = append(ids, fields[0])
		}
	}
	return ids
}

// The connection for the events of a sentinel does not stay signed in with a former password.
func TestTheEventsOfASentinelComeWithTheCurrentPassword(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
	sentinel := r.Sentinels[0].Client()
	g.Expect(sentinel.Do(t.Context(), "acl", "setuser", "watcher", "on", ">first", ">second", "allcommands", "allchannels").Err()).To(Succeed())
	secret := &changingSecret{}
	secret.set("first")
	e := deployment(t, auth.ModeSentinel, r.Sentinels[0].Addr())
	e.Namespace = "team"
	e.Sentinels = unique.Make(auth.Sentinels{
		MasterName: redistest.MasterName, Username: "watcher", Password: auth.SecretKey{Name: "sentinels", Key: "password"},
	})
	h := followWith(t, connection.NewPool(connection.Options{Secrets: secret, LookAgain: 50 * time.Millisecond}), e)
	subscribed := func() []string { return subscribers(t.Context(), sentinel, "watcher") }
	h.Eventually(subscribed).Should(HaveLen(1))
	first := subscribed()

	secret.set("second")
	h.Eventually(subscribed).Should(And(HaveLen(1), Not(Equal(first))))
	h.Eventually(h.owner("emails")).Should(Equal(r.Servers[0].Addr()))
}
