// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const awkward = "pass\"word\\with <ümläuts>\tand all"

// echoes returns a server that repeats the last argument of a command in its error.
func echoes(t *testing.T, words func(arg string) string) *redistest.Scripted {
	t.Helper()
	return redistest.NewScripted(t, func(args []string) string {
		return "-WRONGPASS " + words(args[len(args)-1]) + "\r\n"
	})
}

func TestWhatAServerRepeatsIsNotTold(t *testing.T) {
	t.Parallel()
	for name, words := range map[string]func(arg string) string{
		"as it is":   func(arg string) string { return "you said " + arg + "!" },
		"in Go":      func(arg string) string { return fmt.Sprintf("you said %q", arg) },
		"in JSON":    func(arg string) string { text, _ := json.Marshal(arg); return string(text) },
		"cut off":    func(arg string) string { return "args beginning with: " + arg[:min(len(arg), 9)] },
		"twice":      func(arg string) string { return arg + arg },
		"as a whole": func(arg string) string { return arg },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var log sync.Mutex
			var lines []string
			logger := funcr.New(func(_, line string) {
				log.Lock()
				defer log.Unlock()
				lines = append(lines, line)
			}, funcr.Options{Verbosity: 9})
			pool := startReal(t, withSecrets(newSecrets(map[string]string{"password": awkward})), quick, func(p *Pool) { p.log = logger })
			conn := pool.Conn(auth.Endpoint{Address: echoes(t, words).Addr(), Password: password, Namespace: namespace}, 0)
			_, err := readLength(t.Context(), conn)
			g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonAuthFailed), "the class is the same")
			g.Expect(failure.IsReply(err)).To(BeTrue())
			_, again := readLength(t.Context(), conn)
			_, third := conn.OpenPubSub(t.Context())
			libraryLogger{logger.V(1), []*Pool{pool}}.Printf(t.Context(), "failed to dial: %v, %q", words(awkward), words(awkward))

			log.Lock()
			defer log.Unlock()
			g.Expect(len(lines)).To(BeNumerically(">=", 2))
			for _, text := range append(lines, texts(err, again, third)...) {
				g.Expect(text).NotTo(ContainSubstring(awkward[:6]))
				g.Expect(text).NotTo(ContainSubstring("mläuts"))
			}
		})
	}
}

// A server that fails again and again is logged each time.
func TestWhatAServerSaysIsLoggedInShort(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	lines := make(chan string, 100)
	logger := funcr.New(func(_, line string) { lines <- line }, funcr.Options{Verbosity: 9})
	server := redistest.NewScripted(t, func(args []string) string {
		if args[0] == "llen" { // The client library expects a number, and repeats any other reply in its error.
			return "$1000000\r\n" + strings.Repeat("x", 1_000_000) + "\r\n"
		}
		return redistest.Usual
	})
	pool := startReal(t, func(p *Pool) { p.log = logger })
	g.Expect(reasonOf(t, pool.Conn(auth.Endpoint{Address: server.Addr()}, 0))).To(Equal(string(failure.ReasonUnreachable)))
	g.Eventually(lines, 30*time.Second).Should(Receive(And(ContainSubstring("xxx"), WithTransform(utf8.RuneCountInString, BeNumerically("<", 2000)))))

	libraryLogger{logger, nil}.Printf(t.Context(), "%s", strings.Repeat("y", 1_000_000))
	g.Eventually(lines, 30*time.Second).Should(Receive(And(ContainSubstring("yyy"), WithTransform(utf8.RuneCountInString, BeNumerically("<", 2000)))))
}

// texts returns the texts of the errors and of everything that they wrap.
func texts(errs ...error) []string {
	var found []string
	for _, err := range errs {
		found = append(found, fmt.Sprintf("%+v", err))
		switch err := err.(type) { //nolint:errorlint // It walks the chain itself.
		case interface{ Unwrap() error }:
			found = append(found, texts(err.Unwrap())...)
		case interface{ Unwrap() []error }:
			found = append(found, texts(err.Unwrap()...)...)
		}
	}
	return found
}

func TestRepliesOnAPubSubAreNotTold(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.NewScripted(t, func(args []string) string {
		if args[0] == "subscribe" {
			return "-NOPERM " + awkward + "\r\n"
		}
		return redistest.Usual
	})
	pool := startReal(t, withSecrets(newSecrets(map[string]string{"password": awkward})))
	pubSub, err := pool.Conn(auth.Endpoint{Address: server.Addr(), Password: password, Namespace: namespace}, 0).OpenPubSub(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	defer pubSub.Close()
	g.Expect(pubSub.Receive(t.Context(), timeout)).To(BeAssignableToTypeOf(&redis.Pong{}))
	g.Expect(pubSub.Subscribe(t.Context(), "news")).To(Succeed())
	_, err = pubSub.Receive(t.Context(), timeout)
	g.Expect(failure.IsReply(err)).To(BeTrue())
	g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonPermissionDenied))
	g.Expect(strings.Join(texts(err), "")).To(And(ContainSubstring("[redacted]"), Not(ContainSubstring("ümläuts"))))
}

// Errors of servers are logged, and searching them for passwords takes time.
func TestALongErrorOfAServerIsCutOff(t *testing.T) {
	t.Parallel()
	const secret = "open sesame"
	for name, endpoint := range map[string]auth.Endpoint{
		"no password": {},
		"a password":  {Password: password, Namespace: namespace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			said := "NOPERM " + secret + strings.Repeat(" "+secret[:6], 1<<17)
			server := redistest.NewScripted(t, func(args []string) string {
				if args[0] == "llen" {
					return fmt.Sprintf("!%d\r\n%s\r\n", len(said), said)
				}
				return redistest.Usual
			})
			endpoint.Address = server.Addr()
			pool := startReal(t, withSecrets(newSecrets(map[string]string{"password": secret})))
			_, err := readLength(t.Context(), pool.Conn(endpoint, 0))
			g.Expect(len(err.Error())).To(BeNumerically("<", 10<<10))
			g.Expect(err.Error()).To(ContainSubstring("NOPERM "))
			g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonPermissionDenied))
			g.Expect(failure.IsReply(err)).To(BeTrue())
			if endpoint.NeedsSecrets() {
				g.Expect(err.Error()).NotTo(ContainSubstring(secret))
			}
		})
	}
}
