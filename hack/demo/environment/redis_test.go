// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func TestAUsersRedisIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{redistest.NoEvents, "Kl", "lE"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server := redistest.New(t, redistest.Options{Events: flags})
			users := server.Client()
			g.Expect(users.RPush(t.Context(), "queue", "theirs").Err()).To(Succeed())
			settings := users.ConfigGet(t.Context(), "*").Val()
			g.Expect(settings).NotTo(BeEmpty())

			r := must.Get(useRedis(t.Context(), server.Addr()))(g)
			g.Expect(r.Emulated).To(BeNil())
			ours := &scaledjobv1.ScaledJob{Spec: scaledjobv1.ScaledJobSpec{QueueName: r.Prefix + "queue"}}
			g.Expect(r.Push(t.Context(), ours.Spec.QueueName, 3)).To(Succeed())
			g.Expect(users.ConfigGet(t.Context(), "*").Val()).To(Equal(settings))

			g.Expect(r.stop(t.Context(), []*scaledjobv1.ScaledJob{ours})).To(Succeed())
			g.Expect(users.ConfigGet(t.Context(), "*").Val()).To(Equal(settings))
			g.Expect(users.Keys(t.Context(), "*").Val()).To(ConsistOf("queue"))
			g.Expect(users.LRange(t.Context(), "queue", 0, -1).Val()).To(Equal([]string{"theirs"}))
		})
	}
}

func TestTwoDemosShareNoKey(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	one := must.Get(useRedis(t.Context(), server.Addr()))(g)
	other := must.Get(useRedis(t.Context(), server.Addr()))(g)
	g.Expect(one.Prefix).NotTo(Equal(other.Prefix))
	g.Expect(one.stop(t.Context(), nil)).To(Succeed())
	g.Expect(other.stop(t.Context(), nil)).To(Succeed())
}

func TestARedisThatIsNotThere(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	g.Expect(server.Kill()).To(Succeed())
	g.Expect(useRedis(t.Context(), server.Addr())).Error().To(MatchError(ContainSubstring(server.Addr())))
}
