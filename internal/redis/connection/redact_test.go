// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const awkward = "pass\"word\\with <ümläuts>\tand all"

// A server may repeat the password in the reply to any command. Neither an error nor the log shows it.
func TestNoReplyTellsThePassword(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"hello", "auth", "select", "llen", "subscribe", "client"} {
		for form, said := range map[string]string{
			"as it is": awkward, "quoted": fmt.Sprintf("%q", awkward), "cut off": strings.Repeat("-", failure.MaxLogged-20) + awkward,
		} {
			t.Run(command+", "+form, func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				replies := redistest.Replies{"auth": "+OK\r\n", "select": "+OK\r\n", "client": "+OK\r\n"}
				if command == "auth" {
					replies["hello"] = "-ERR unknown command 'hello'\r\n"
				}
				replies[command] = "-NOPERM " + said + "\r\n"
				if command == "hello" { // Without a permission for it, the operator does without.
					replies[command] = "-WRONGPASS " + said + "\r\n"
				}
				server := redistest.NewScripted(t, replies.Script)
				lines := make(chan string, 100)
				logger := funcr.New(func(_, line string) { lines <- line }, funcr.Options{Verbosity: 9})
				pool := startReal(t, withSecrets(newSecrets(map[string]string{"password": awkward})), quick, func(p *Pool) { p.log = logger })
				conn := pool.Conn(auth.Endpoint{Address: server.Addr(), Password: password, Namespace: namespace}, 1)
				all := strings.Join(texts(useAll(t, conn)...), "\n")
				if command == "hello" { // The server is down.
					g.Eventually(lines, timeout).Should(Receive(And(ContainSubstring("[redacted]"), Not(MatchRegexp(`pass\\*"w|mläuts`)))))
				}
				g.Expect(all).To(ContainSubstring("[redacted]"))
				g.Expect(all).NotTo(Or(ContainSubstring(awkward[:4]), ContainSubstring("mläuts")))
			})
		}
	}
}

// receive returns the next message or reply. An error reply is returned as its class.
func receive(wire *Wire) (any, error) {
	message, err := wire.Receive(timeout)
	if refusal, refused := message.(resp.Error); refused {
		return nil, wire.Refused(refusal)
	}
	return message, err
}

// useAll uses a connection in all ways, and returns the errors.
func useAll(t *testing.T, conn *Conn) (errs []error) {
	t.Helper()
	_, err := readLength(t.Context(), conn)
	errs = append(errs, err)
	wire, err := conn.OpenWire(t.Context())
	if err != nil {
		return append(errs, err)
	}
	defer wire.Close()
	for _, command := range [][]string{{"client", "tracking", "on"}, {"subscribe", "news"}} {
		errs = append(errs, wire.Send(command))
		_, err = receive(wire)
		errs = append(errs, err)
	}
	return errs
}

// A server that fails again and again is logged each time.
func TestWhatAServerSaysIsLoggedInShort(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	lines := make(chan string, 100)
	logger := funcr.New(func(_, line string) { lines <- line }, funcr.Options{Verbosity: 9})
	server := redistest.NewScripted(t, redistest.Replies{
		"llen": "!1000010\r\nWRONGPASS " + strings.Repeat("x", 1_000_000) + "\r\n",
	}.Script)
	pool := startReal(t, func(p *Pool) { p.log = logger })
	g.Expect(reasonOf(t, pool.Conn(auth.Endpoint{Address: server.Addr()}, 0))).To(Equal(string(failure.ReasonAuthFailed)))
	g.Eventually(lines, 30*time.Second).Should(Receive(And(ContainSubstring("xxx"), WithTransform(utf8.RuneCountInString, BeNumerically("<", 2000)))))
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
