// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		begun := time.Now()
		g.Expect(Pause(t.Context(), time.Minute)).To(Succeed())
		g.Expect(time.Since(begun)).To(Equal(time.Minute))
		g.Expect(Pause(t.Context(), -time.Minute)).To(Succeed())
		g.Expect(time.Since(begun)).To(Equal(time.Minute))

		enough := errors.New("enough")
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { end(enough) })
		g.Expect(Pause(ctx, time.Hour)).To(MatchError(enough))
		g.Expect(time.Since(begun)).To(Equal(time.Minute + time.Second))
		g.Expect(Pause(ctx, 0)).To(MatchError(enough))
	})
}

func TestAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		asked := 0
		notYet := errors.New("not yet")
		condition := func(context.Context) error {
			if asked++; asked < 3 {
				return notYet
			}
			return nil
		}
		g.Expect(Await(t.Context(), condition)).To(Succeed())
		g.Expect(asked).To(Equal(3))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := Await(ctx, func(context.Context) error { return notYet })
		g.Expect(err).To(And(MatchError(context.DeadlineExceeded), MatchError(notYet)))
	})
}
