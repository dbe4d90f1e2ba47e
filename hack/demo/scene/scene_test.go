// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/hack/demo/board"
)

func TestEverySceneHoldsWithAnOperatorThatIsRight(t *testing.T) {
	t.Parallel()
	for _, scene := range All() {
		t.Run(scene.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				world := newWorld(t)
				results, err := Play(t.Context(), world.stage(), []Scene{scene}, time.Second)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(results).To(HaveLen(1))
				result := results[0]
				g.Expect(result.FailedChecks).To(BeEmpty())
				g.Expect(result.Messages).To(BeNumerically(">", 0))
				g.Expect(result.Due).To(BeNumerically(">", 0))
				g.Expect(result.Created).To(Equal(result.Due))
				g.Expect(result.Reactions).NotTo(BeEmpty())
			})
		})
	}
}

func TestChecksFail(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		scene string
		fault func(*world)
		want  string
	}{
		"a Job too many":           {"trickle", func(w *world) { w.extra = 1 }, "image-processor: 4 Jobs due, 8 created"},
		"more at once than max":    {"burst", func(w *world) { w.ignoreMax = true }, "never more active than max: at most 40 of 20, 24 of 10, 15 of 5"},
		"messages are left behind": {"burst", func(w *world) { w.leave = 1 }, "messages are left: 1"},
		"Redis takes Jobs with it": {"redis", func(w *world) { w.killWithRedis = true }, "image-processor: 4 Jobs deleted before the end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				world := newWorld(t)
				test.fault(world)
				results, err := Play(t.Context(), world.stage(), only(test.scene), 0)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(strings.Join(results[0].FailedChecks, "\n")).To(ContainSubstring(test.want))
				snapshot, _ := world.board.Look()
				g.Expect(snapshot.Log).To(ContainElement(HaveField("Kind", board.Failed)))
			})
		})
	}
}

func TestAFactThatNeverComesTrueEndsThePlay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		world := newWorld(t)
		world.deaf = true
		results, err := Play(t.Context(), world.stage(), All(), 0)
		g.Expect(err).To(MatchError(MatchRegexp("^scene burst: waiting until .*: it took more than")))
		g.Expect(results).To(BeEmpty())
	})
}

func TestWhatTheRedisDoesNotAllowIsLeftOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		world := newWorld(t)
		stage := world.stage()
		stage.Redis, stage.Events = nil, nil
		results, err := Play(t.Context(), stage, All(), 0)
		g.Expect(err).NotTo(HaveOccurred())
		leftOut := map[string]bool{}
		for _, result := range results {
			leftOut[result.Name] = result.LeftOut != ""
		}
		g.Expect(leftOut).To(Equal(map[string]bool{
			"burst": false, "trickle": false, "flags": true, "redis": true, "operator": false,
		}))
		snapshot, _ := world.board.Look()
		g.Expect(snapshot.Playing.Of).To(Equal(3))
	})
}

func TestNothingToPlayIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stage := newWorld(t).stage()
		stage.Redis = nil
		_, err := Play(t.Context(), stage, only("redis"), 0)
		NewWithT(t).Expect(err).To(HaveOccurred())
	})
}

func TestPlayEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := Play(ctx, newWorld(t).stage(), only("burst"), 0)
		NewWithT(t).Expect(err).To(MatchError(cause))
	})
}

func TestDue(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(due(1, 10)).To(Equal(1))
	g.Expect(due(10, 10)).To(Equal(1))
	g.Expect(due(11, 10)).To(Equal(2))
}

func only(name string) []Scene {
	for _, scene := range All() {
		if scene.Name == name {
			return []Scene{scene}
		}
	}
	return nil
}
