// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

var (
	somewhere  = auth.Endpoint{Address: "redis:6379"}
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
)

// replyError is an error reply, as the client library returns it.
type replyError string

func (r replyError) Error() string { return string(r) }
func (replyError) RedisError()     {}

// start runs a pool with this dialer until the test ends. The prepare functions may change the pool before it starts.
func start(t *testing.T, dial dialFunc, prepare ...func(*Pool)) *Pool {
	t.Helper()
	pool := NewPool(Options{})
	pool.dialer = dial
	for _, change := range prepare {
		change(pool)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = pool.Start(t.Context()) })
	t.Cleanup(running.Wait)
	return pool
}

// refuse is a dialer that gets "connection refused".
func refuse(context.Context, string, string) (net.Conn, error) { return nil, errRefused }

// dial makes the client dial. A command would also do that, but if more commands wait than the client has connections,
// they share timers between synctest bubbles.
func dial(ctx context.Context, client Client) error {
	_, err := client.Options().Dialer(ctx, "tcp", somewhere.Address)
	return err
}

// answer returns a call that does not use the client.
func answer(err error) func(context.Context, Client) error {
	return func(context.Context, Client) error { return err }
}

func TestAnEndpointThatIsDownIsDialedByOneOnly(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		var dials []time.Time // needs no lock, because there is one dial at a time
		var dialing atomic.Int32
		pool := start(t, func(context.Context, string, string) (net.Conn, error) {
			g.Expect(dialing.Add(1)).To(BeEquivalentTo(1))
			defer dialing.Add(-1)
			dials = append(dials, time.Now())
			time.Sleep(time.Millisecond)
			return nil, errRefused
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var users sync.WaitGroup
		for range 40 {
			users.Go(func() {
				for ctx.Err() == nil {
					_ = pool.Conn(somewhere, 0).Do(ctx, dial)
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		users.Go(func() {
			for pool.Conn(somewhere, 0).WaitUp(ctx) == nil {
				g.Expect(pool.Conn(somewhere, 0).OpenWire(ctx)).Error().To(MatchError(syscall.ECONNREFUSED))
			}
		})
		users.Wait()
		synctest.Wait()
		g.Expect(len(dials)).To(And(BeNumerically(">=", 10), BeNumerically("<=", 15)))
		for i := 1; i < len(dials); i++ {
			g.Expect(dials[i].Sub(dials[i-1])).To(And(
				BeNumerically(">=", firstDelay), BeNumerically("<=", longestDelay+time.Millisecond)))
		}
	})
}

func TestCallsFailAtOnceWithTheCauseWhileDown(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		pool := start(t, refuse)
		g.Expect(pool.Conn(somewhere, 0).Do(t.Context(), dial)).To(MatchError(syscall.ECONNREFUSED))

		begun := time.Now()
		err := pool.Conn(somewhere, 0).Do(t.Context(), func(context.Context, Client) error {
			t.Error("the call was made")
			return nil
		})
		g.Expect(err).To(MatchError(syscall.ECONNREFUSED))
		g.Expect(failure.Classify(err).Message).To(ContainSubstring("refused"))
		g.Expect(time.Since(begun)).To(BeZero())
	})
}

func TestAnUnansweredCallMakesOthersFailAtOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		pool := start(t, refuse)
		conn, other := pool.Conn(somewhere, 0), pool.Conn(auth.Endpoint{Address: "other:1"}, 0)
		release := make(chan struct{})
		var calls sync.WaitGroup
		calls.Go(func() {
			g.Expect(conn.Do(t.Context(), func(context.Context, Client) error {
				<-release
				return nil
			})).To(Succeed())
		})

		time.Sleep(99 * time.Millisecond)
		g.Expect(conn.Do(t.Context(), answer(nil))).To(Succeed())
		time.Sleep(2 * time.Millisecond)
		g.Expect(conn.Do(t.Context(), answer(nil))).To(MatchError(failure.ErrBusy))
		g.Expect(other.Do(t.Context(), answer(nil))).To(Succeed())
		g.Expect(conn.WaitUp(t.Context())).To(Succeed(), "the endpoint is not down")
		close(release)
		calls.Wait()
		g.Expect(conn.Do(t.Context(), answer(nil))).To(Succeed())
	})
}

func TestACallHasADeadline(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		pool := start(t, refuse)
		begun := time.Now()
		err := pool.Conn(somewhere, 0).Do(t.Context(), unanswered)
		g.Expect(err).To(MatchError(context.DeadlineExceeded))
		g.Expect(failure.Classify(err).Message).To(ContainSubstring("in time"))
		g.Expect(time.Since(begun)).To(Equal(time.Second))
		g.Expect(pool.Conn(somewhere, 0).Do(t.Context(), answer(nil))).To(MatchError(context.DeadlineExceeded), "the endpoint is down")
	})
}

func TestAnErrorReplyFailsTheCallOnly(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		conn := start(t, refuse).Conn(somewhere, 0)
		for _, reply := range []replyError{"WRONGTYPE x", "NOPERM x", "LOADING x", "ERR max number of clients reached"} {
			g.Expect(conn.Do(t.Context(), answer(reply))).To(MatchError(reply))
			g.Expect(conn.Do(t.Context(), answer(nil))).To(Succeed())
		}
	})
}

func TestRefusedCredentialsAreTriedEvery30Seconds(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		var dials atomic.Int32
		conn := start(t, func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			return nil, replyError("WRONGPASS x")
		}).Conn(somewhere, 0)
		g.Expect(conn.Do(t.Context(), answer(replyError("NOAUTH x")))).NotTo(Succeed())
		g.Expect(failure.Classify(conn.Do(t.Context(), answer(nil))).Reason).To(Equal(failure.ReasonAuthFailed))
		time.Sleep(3*time.Minute + time.Second)
		synctest.Wait()
		g.Expect(dials.Load()).To(BeEquivalentTo(6))
	})
}

func TestUnusedEndpointsAreForgotten(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		var dials atomic.Int32
		pool := start(t, func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			return nil, errRefused
		})
		used, down := pool.Conn(somewhere, 0), pool.Conn(auth.Endpoint{Address: "down:1"}, 0)
		g.Expect(used.Do(t.Context(), answer(nil))).To(Succeed())
		g.Expect(down.Do(t.Context(), dial)).NotTo(Succeed())
		for range 20 {
			time.Sleep(time.Minute)
			g.Expect(used.Do(t.Context(), answer(nil))).To(Succeed())
		}
		pool.mu.Lock()
		g.Expect(pool.servers).To(And(HaveLen(1), HaveKey(somewhere)))
		pool.mu.Unlock()
		before := dials.Load()
		time.Sleep(time.Hour)
		g.Expect(dials.Load()).To(Equal(before), "a forgotten endpoint is not probed")
	})
}

func TestOnRestored(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		var refusing atomic.Bool
		var restored atomic.Int32
		pool := start(t, func(context.Context, string, string) (net.Conn, error) {
			if refusing.Load() {
				return nil, errRefused
			}
			return nil, replyError("ERR x") // An error reply is an answer of a server that is up.
		}, func(p *Pool) {
			p.OnRestored(func(e auth.Endpoint) {
				g.Expect(e).To(Equal(somewhere))
				restored.Add(1)
			})
		})
		conn := pool.Conn(somewhere, 0)
		g.Expect(conn.Do(t.Context(), answer(nil))).To(Succeed())
		g.Expect(restored.Load()).To(BeZero(), "the endpoint was not down yet")
		for round := range 2 {
			refusing.Store(true)
			g.Expect(conn.Do(t.Context(), answer(errRefused))).NotTo(Succeed())
			time.Sleep(time.Minute)
			g.Expect(restored.Load()).To(BeEquivalentTo(round), "the endpoint is down")
			refusing.Store(false)
			time.Sleep(time.Minute)
			g.Expect(restored.Load()).To(BeEquivalentTo(round + 1))
		}
	})
}

func TestWaitUpEnds(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		pool := NewPool(Options{})
		pool.dialer = refuse
		poolCtx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { g.Expect(pool.Start(poolCtx)).To(Succeed()) })
		conn := pool.Conn(somewhere, 0)
		g.Expect(conn.Do(t.Context(), dial)).NotTo(Succeed())

		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- conn.WaitUp(ctx) }()
		go func() { failed <- conn.WaitUp(t.Context()) }()
		synctest.Wait()
		cancel()
		g.Expect(<-failed).To(MatchError(context.Canceled))
		stop()
		g.Expect(<-failed).To(MatchError(failure.ErrClosed))
		running.Wait()

		g.Expect(conn.WaitUp(t.Context())).To(MatchError(failure.ErrClosed))
		g.Expect(conn.Do(t.Context(), answer(nil))).To(MatchError(failure.ErrClosed))
		g.Expect(conn.OpenWire(t.Context())).Error().To(MatchError(failure.ErrClosed))
	})
}

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
			bubble.Run(t, func(t *testing.T, g Gomega) {
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
	bubble.Run(t, func(t *testing.T, g Gomega) {
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
	bubble.Run(t, func(t *testing.T, g Gomega) {
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
	bubble.Run(t, func(t *testing.T, g Gomega) {
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
	bubble.Run(t, func(t *testing.T, g Gomega) {
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

func TestBackoffGrowsToItsLimit(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var backoff Backoff
	for _, milliseconds := range []int{250, 250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000} {
		most := time.Duration(milliseconds) * time.Millisecond
		for range 100 {
			g.Expect(backoff.Delay()).To(And(BeNumerically(">=", max(most/2, firstDelay)), BeNumerically("<=", most)))
		}
		backoff.Begin()
	}
	for range 1000 {
		backoff.Begin()
	}
	g.Expect(backoff.Delay()).To(BeNumerically("<=", longestDelay))
	backoff.Reset()
	g.Expect(backoff.Delay()).To(Equal(firstDelay))
}
