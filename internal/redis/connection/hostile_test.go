// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// elsewhere is a server that has nothing to do with the one at [somewhere].
var elsewhere = auth.Endpoint{Address: "other:6379"}

// nextTo dials a server at somewhere by dial, and one that is well elsewhere.
func nextTo(dial dialFunc) dialFunc {
	well := redistest.NewPiped(redistest.Replies{}.Script)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == elsewhere.Address {
			return well.Dial(ctx, network, address)
		}
		return dial(ctx, network, address)
	}
}

// Whatever a server replies, the call and the wire fail for a reason, other servers are read meanwhile, and the next
// call and the next wire have the right replies.
func TestABadReplyIsAnError(t *testing.T) {
	t.Parallel()
	const tooLarge, broke, alien, late = "replies that are too large", "broke", "does not speak", "in time"
	for name, c := range map[string]struct{ reply, words string }{
		"a string of gigabytes":        {"$4294967296\r\n", tooLarge},
		"keys of maps a thousand deep": {strings.Repeat("%1\r\n", 1000), tooLarge},
		"the end in a string":          {"$5\r\nab" + redistest.HangUp, broke},
		"no reply":                     {redistest.Nothing, late},
		"half a reply":                 {":1", late},
		"another protocol":             {"HTTP/1.1 400 Bad Request\r\n\r\n", alien},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, g Gomega) {
				var bad atomic.Bool
				pool := start(t, nextTo(redistest.NewPiped(func(args []string) string {
					switch {
					case args[0] != "llen":
						return redistest.Usual
					case bad.Load():
						return c.reply
					}
					return ":7\r\n"
				}).Dial))
				conn := pool.Conn(somewhere, 0)
				g.Expect(length(t, conn)).To(BeEquivalentTo(7))
				wire := openWire(t, conn)

				bad.Store(true)
				_, err := readLength(t.Context(), conn)
				g.Expect(failure.Classify(err).Message).To(ContainSubstring(c.words))
				_, err = ask(wire, "llen", "emails")
				g.Expect(failure.Classify(err).Message).To(ContainSubstring(c.words))
				_, err = readLength(t.Context(), pool.Conn(elsewhere, 0))
				g.Expect(err).NotTo(HaveOccurred(), "another server is read")

				bad.Store(false)
				g.Expect(length(t, conn)).To(BeEquivalentTo(7))
				next := openWire(t, conn)
				g.Expect(ask(next, "llen", "emails")).To(BeEquivalentTo(7))
			})
		})
	}
}

// A message is no greeting. If it were taken for one, the greeting would be the reply to the first command.
func TestAMessageBeforeTheGreeting(t *testing.T) {
	t.Parallel()
	const message = ">2\r\n+invalidate\r\n_\r\n"
	greeting := redistest.UsualAnswer([]string{"hello"})
	for name, said := range map[string][]string{
		"at once": {message + greeting}, "one after the other": {message, greeting}, "several": {message, message, greeting},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, g Gomega) {
				dial := nextTo(piped(func(conn net.Conn) {
					for args := range redistest.Commands(conn) {
						parts := []string{redistest.UsualAnswer(args)}
						if args[0] == "hello" {
							parts = said
						}
						for _, part := range parts {
							_, _ = io.WriteString(conn, part)
						}
					}
				}))
				alien := WithTransform(failure.Classify, HaveField("Message", ContainSubstring("does not speak the Redis protocol")))
				g.Expect(start(t, dial).Conn(somewhere, 0).OpenWire(t.Context())).Error().To(alien)
				pool := start(t, dial)
				g.Expect(readLength(t.Context(), pool.Conn(somewhere, 5))).Error().To(alien)
				g.Expect(readLength(t.Context(), pool.Conn(elsewhere, 0))).Error().NotTo(HaveOccurred())
			})
		})
	}
}

// A message is no reply either, also where the server has refused RESP3.
func TestAMessageIsNoReplyToARead(t *testing.T) {
	t.Parallel()
	const message = ">2\r\n+invalidate\r\n*1\r\n+emails\r\n"
	for name, greeting := range map[string]string{"RESP3": redistest.Usual, "RESP2": "-ERR unknown command 'hello'\r\n"} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, g Gomega) {
				pool := start(t, redistest.NewPiped(redistest.Replies{"hello": greeting, "llen": message + ":7\r\n" + message}.Script).Dial)
				for range 5 {
					g.Expect(length(t, pool.Conn(somewhere, 0))).To(BeEquivalentTo(7))
				}
			})
		})
	}
}

// unread reports whether the server has sent something that was not read yet.
func unread(conn net.Conn) (found bool) {
	socket, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return false
	}
	err = socket.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		found = n > 0 && err == nil
	})
	return found && err == nil
}

// What comes without a question is no part of the reply to the next one, whether it comes with a reply or after it.
// Nobody waits for the rest of it for long.
func TestWhatComesWithoutAQuestion(t *testing.T) {
	t.Parallel()
	for name, extra := range map[string]string{
		"a reply":         ":99\r\n",
		"several replies": strings.Repeat(":99\r\n", 100),
		"half a reply":    ":9",
		"a message":       ">2\r\n+invalidate\r\n_\r\n",
		"half a message":  ">2\r\n+inval",
		"half attributes": "|1\r\n+a\r\n",
	} {
		for when, later := range map[string]bool{"with the reply": false, "after it": true} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				send, resume := make(chan struct{}), make(chan struct{})
				address := redistest.Listen(t, func(conn net.Conn) {
					for args := range redistest.Commands(conn) {
						switch {
						case args[0] != "llen":
							_, _ = io.WriteString(conn, redistest.UsualAnswer(args))
							continue
						case !later:
							_, _ = io.WriteString(conn, ":7\r\n"+extra)
							continue
						}
						_, _ = io.WriteString(conn, ":7\r\n")
						select {
						case <-send:
							_, _ = io.WriteString(conn, extra)
						case <-t.Context().Done():
							return
						}
					}
				})
				var last atomic.Pointer[net.Conn]
				conn := startReal(t, impatient, func(p *Pool) {
					near := p.dialer
					p.dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
						dialed, err := near(ctx, network, address)
						last.Store(&dialed)
						return dialed, err
					}
				}).Conn(auth.Endpoint{Address: address}, 0)
				read := make(chan int64)
				go func() {
					defer close(read)
					for range 3 {
						read <- length(t, conn)
						if later {
							<-resume
						}
					}
				}()
				for range 3 {
					g.Eventually(read).WithTimeout(timeout).Should(Receive(BeEquivalentTo(7)))
					if later {
						send <- struct{}{}
						g.Eventually(func() bool { return unread(*last.Load()) }).WithTimeout(timeout).Should(BeTrue())
						resume <- struct{}{}
					}
				}
			})
		}
	}
}

// Where HELLO was renamed, or a proxy does not know it, the error may have any words.
func TestErrorsOfProxiesForHello(t *testing.T) {
	t.Parallel()
	for _, said := range []string{
		"-ERR unknown command `hello`, with args beginning with: `3`, `auth`, `default`, \r\n",
		"-ERR unknown command 'HELLO'\r\n",
		"-unknown command\r\n",
		"-unsupported command 'hello'\r\n",
		"-invalid request\r\n",
		"-ERR command 'HELLO' is not allowed by this proxy\r\n",
		"-ERR Proxy error: no such command\r\n",
		"-NOAUTH Authentication required.\r\n",
		"-NOPERM this user has no permissions to run the 'hello' command\r\n",
		"-NOPROTO sorry, this protocol version is not supported\r\n",
		"!19\r\nERR unknown command\r\n",
		"-\r\n",
	} {
		t.Run(strconv.Quote(said), func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, g Gomega) {
				pool := start(t, func(ctx context.Context, network, address string) (net.Conn, error) {
					welcome := false
					return redistest.NewPiped(func(args []string) string {
						switch {
						case args[0] == "hello":
							return said
						case args[0] == "auth":
							welcome = strings.Join(args, " ") == "auth reader secret"
							return "+OK\r\n"
						case !welcome:
							return "-NOAUTH Authentication required.\r\n"
						case args[0] == "llen":
							return ":7\r\n"
						}
						return redistest.Usual
					}).Dial(ctx, network, address)
				}, withSecrets(newSecrets(map[string]string{"password": "secret"})))
				endpoint := somewhere
				endpoint.Username, endpoint.Password, endpoint.Namespace = "reader", password, namespace
				conn := pool.Conn(endpoint, 5)
				g.Expect(length(t, conn)).To(BeEquivalentTo(7))
				wire := openWire(t, conn)
				g.Expect(wire.Tracks()).To(BeFalse(), "this is RESP2")
				g.Expect(ask(wire, "llen", "emails")).To(BeEquivalentTo(7))
			})
		})
	}
}

// A server that takes 900 ms for each reply is used, although a call that also waits for a connection fails. Others are
// read at once.
func TestAServerThatAnswersLate(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		const late = 900 * time.Millisecond
		pool := start(t, nextTo(redistest.NewPiped(func([]string) string {
			time.Sleep(late)
			return redistest.Usual
		}).Dial))
		var reads sync.WaitGroup
		for database := range 2 {
			reads.Go(func() {
				for read := 0; read < 5; time.Sleep(20 * time.Millisecond) {
					_, err := readLength(t.Context(), pool.Conn(somewhere, database))
					if err == nil {
						read++
						continue
					}
					g.Expect(failure.Classify(err).Message).To(Or(ContainSubstring("in time"), ContainSubstring("too slowly")))
				}
			})
		}
		reads.Go(func() {
			began := time.Now()
			for range 100 {
				g.Expect(readLength(t.Context(), pool.Conn(elsewhere, 0))).Error().NotTo(HaveOccurred())
			}
			g.Expect(time.Since(began)).To(BeZero())
		})
		reads.Wait()
		slow := pool.Conn(somewhere, 0)
		g.Expect(slow.WaitUp(t.Context())).To(Succeed())
		wire := openWire(t, slow)
		g.Expect(wire.Tracks()).To(BeTrue())
		g.Expect(wire.Send([]string{"llen", "emails"}, []string{"ping"})).To(Succeed())
		g.Expect(receive(wire)).To(BeZero())
		g.Expect(receive(wire)).To(Equal("PONG"))
		time.Sleep(10 * late) // Dials whose calls have given up end.
	})
}
