// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// unanswered is a call that ends with its context.
func unanswered(ctx context.Context, _ Client) error {
	<-ctx.Done()
	return ctx.Err()
}

// If Do fails in the same way, the endpoint is marked down.
func TestAFailedQuestionSaysNothingAboutTheEndpoint(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"the end": io.EOF, "a timeout": context.DeadlineExceeded, "garbage": errors.New("can't parse"), "credentials": replyError("NOAUTH"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				conn := start(t, refuse).Conn(somewhere, 0)
				err := conn.Ask(t.Context(), answer(cause))
				g.Expect(err).To(MatchError(cause))
				g.Expect(err).To(BeAssignableToTypeOf(&failure.Error{}))
				g.Expect(conn.Do(t.Context(), answer(nil))).To(Succeed(), "the endpoint is not down")

				g.Expect(conn.Do(t.Context(), answer(cause))).NotTo(Succeed())
				asked := false
				err = conn.Ask(t.Context(), func(context.Context, Client) error { asked = true; return nil })
				g.Expect(err).To(MatchError(cause), "the endpoint is down for this cause")
				g.Expect(asked).To(BeFalse())
			})
		})
	}
}

func TestAQuestionWithoutAnswerHoldsUpNoCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		conn := start(t, refuse).Conn(somewhere, 0)
		asked := make(chan error)
		begun := time.Now()
		go func() { asked <- conn.Ask(t.Context(), unanswered) }()
		time.Sleep(callTimeout / 2)
		g.Expect(conn.Do(t.Context(), answer(nil))).To(Succeed())
		g.Expect(<-asked).To(MatchError(context.DeadlineExceeded))
		g.Expect(time.Since(begun)).To(Equal(callTimeout))
	})
}

func TestNoQuestionIsAskedWhileACallIsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		conn := start(t, refuse).Conn(somewhere, 0)
		called := make(chan error)
		go func() { called <- conn.Do(t.Context(), unanswered) }()
		time.Sleep(callTimeout / 2)
		g.Expect(conn.Ask(t.Context(), answer(nil))).To(MatchError(failure.ErrBusy))
		g.Expect(<-called).To(MatchError(context.DeadlineExceeded))
	})
}

// A canceled reconcile does not mean that the server has failed.
func TestACallThatIsGivenUpSaysNothingAboutTheEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		conn := start(t, refuse).Conn(somewhere, 0)
		ctx, giveUp := context.WithCancelCause(t.Context())
		cause := errors.New("the operator ends")
		time.AfterFunc(time.Millisecond, func() { giveUp(cause) })
		err := conn.Do(ctx, unanswered)
		g.Expect(err).To(MatchError(cause))
		g.Expect(err).NotTo(BeAssignableToTypeOf(&failure.Error{}), "the user has nothing to correct")
		g.Expect(conn.Do(t.Context(), answer(nil))).To(Succeed())
	})
}

// The client library asserts the types of replies.
func TestAPanicOfTheLibraryIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		conn := start(t, refuse).Conn(somewhere, 0)
		panics := func(context.Context, Client) error {
			var reply any = "text"
			_ = reply.(int64)
			return nil
		}
		g.Expect(conn.Ask(t.Context(), panics)).To(MatchError(ContainSubstring("malformed reply")))
		g.Expect(conn.Do(t.Context(), panics)).To(MatchError(ContainSubstring("malformed reply")))
	})
}

func TestNothingIsAskedAfterTheEndOfThePool(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := NewPool(Options{})
	conn := pool.Conn(somewhere, 0)
	pool.close()
	g.Expect(conn.Ask(t.Context(), answer(nil))).To(MatchError(failure.ErrClosed))
	g.Expect(conn.Do(t.Context(), answer(nil))).To(MatchError(failure.ErrClosed))
	g.Expect(conn.WaitUp(t.Context())).To(MatchError(failure.ErrClosed))
	_, err := conn.OpenWire(t.Context())
	g.Expect(err).To(MatchError(failure.ErrClosed))
}
