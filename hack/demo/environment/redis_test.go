// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/redistest"
)

func TestAUsersRedisIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{redistest.NoEvents, "Kl", "lE"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server := redistest.NewEmulated(t, redistest.EmulatedOptions{Events: flags})
			users := server.Client()
			g.Expect(users.RPush(t.Context(), "queue", "theirs").Err()).To(Succeed())
			before := flagsOf(t.Context(), g, users)

			r, err := useRedis(t.Context(), server.Addr())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(r.Owned()).To(BeFalse())
			ours := &scaledjobv1.ScaledJob{Spec: scaledjobv1.ScaledJobSpec{QueueName: r.Prefix() + "queue"}}
			g.Expect(r.push(t.Context(), ours.Spec.QueueName, 3)).To(Succeed())
			g.Expect(flagsOf(t.Context(), g, users)).NotTo(Equal(before))
			g.Expect(r.Events().Switch(t.Context(), false)).To(Succeed())
			g.Expect(flagsOf(t.Context(), g, users)).To(BeEmpty())

			g.Expect(r.stop(t.Context(), []*scaledjobv1.ScaledJob{ours})).To(Succeed())
			g.Expect(flagsOf(t.Context(), g, users)).To(Equal(before))
			g.Expect(users.Keys(t.Context(), "*").Val()).To(ConsistOf("queue"))
			g.Expect(users.LRange(t.Context(), "queue", 0, -1).Val()).To(Equal([]string{"theirs"}))
		})
	}
}

func TestARedisWithoutConfigHasNoSwitch(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.NewEmulated(t, redistest.EmulatedOptions{ForbidConfig: true})
	r, err := useRedis(t.Context(), server.Addr())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Events()).To(BeNil())
	g.Expect(r.stop(t.Context(), nil)).To(Succeed())
}

func TestTwoDemosShareNoKey(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.NewEmulated(t, redistest.EmulatedOptions{})
	one, err := useRedis(t.Context(), server.Addr())
	g.Expect(err).NotTo(HaveOccurred())
	other, err := useRedis(t.Context(), server.Addr())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(one.Prefix()).NotTo(Equal(other.Prefix()))
	g.Expect(one.stop(t.Context(), nil)).To(Succeed())
	g.Expect(other.stop(t.Context(), nil)).To(Succeed())
}

func TestARedisThatIsNotThere(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.NewEmulated(t, redistest.EmulatedOptions{})
	g.Expect(server.Kill()).To(Succeed())
	_, err := useRedis(t.Context(), server.Addr())
	g.Expect(err).To(MatchError(ContainSubstring(server.Addr())))
}

func TestAStartedRedisCanBeKilledAndComesBackEmpty(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, err := startRedis(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.push(t.Context(), "queue", 12)).To(Succeed())
	g.Expect(r.take(t.Context(), "queue", 10)).To(Succeed())
	g.Expect(r.depth(t.Context(), "queue")).To(BeEquivalentTo(2))

	g.Expect(r.Kill()).To(Succeed())
	_, err = r.depth(t.Context(), "queue")
	g.Expect(err).To(HaveOccurred())

	g.Expect(r.Start(t.Context())).To(Succeed())
	g.Expect(r.depth(t.Context(), "queue")).To(BeZero())
	g.Expect(r.take(t.Context(), "queue", 10)).To(Succeed())
	g.Expect(r.stop(t.Context(), nil)).To(Succeed())
}

func TestEnable(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"":    "Klg",
		"Klg": "Klg",
		"E":   "EKlg",
		"A":   "AK",
		"AKE": "AKE",
		"$Kl": "$Klg",
	} {
		NewWithT(t).Expect(enable(flags)).To(Equal(want), "flags %q", flags)
	}
}

func flagsOf(ctx context.Context, g *WithT, client *redis.Client) string {
	settings, err := client.ConfigGet(ctx, setting).Result()
	g.Expect(err).NotTo(HaveOccurred())
	return settings[setting]
}
