// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"encoding/base64"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// The search itself is made when the operator is stopped, for the secrets of all tests at once.

func TestControlSecretSearch(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	var own secrets
	password, pair := own.password(), certificates.NewAuthority(t).Client(t, "operator")
	own.key(pair.Key)
	for _, form := range []string{
		password, base64.StdEncoding.EncodeToString([]byte(password)), url.QueryEscape(password),
		string(pair.Key), base64.StdEncoding.EncodeToString(pair.Key), strconv.Quote(string(pair.Key)),
	} {
		found := must.Get(shared.evidence(t.Context()))(s)
		s.Expect(found).To(HaveKeyWithValue("metrics", ContainSubstring("go_goroutines")))
		s.Expect(own.search(found)).To(Succeed())
		event := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: s.Namespace, Name: "telling"},
			InvolvedObject: corev1.ObjectReference{Namespace: s.Namespace, Name: s.Name},
			Message:        "It is " + form,
		}
		s.Expect(shared.API.Create(t.Context(), event)).To(Succeed())
		found = must.Get(shared.evidence(t.Context()))(s)
		s.Expect(own.search(found)).To(MatchError(Or(ContainSubstring("a password"), ContainSubstring("a private key"))))
		s.Expect(shared.API.Delete(t.Context(), event)).To(Succeed())
	}
}

// A server without TLS gets nothing but the beginning of a handshake, whether or not it answers. The same server gets
// the password when the spec says so, so that the test would see it.
func TestAPasswordIsNotSentWithoutTLSUnlessTheSpecSaysSo(t *testing.T) {
	t.Parallel()
	const handshake = 0x16 // the first byte of a record of TLS that belongs to a handshake
	for name, c := range map[string]struct{ answer, reason string }{
		"a server that waits for more": {"", scaledjobv1.ReasonUnreachable},
		"a server that refuses":        {"-NOAUTH Authentication required.\r\n", scaledjobv1.ReasonTLSFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			var got heard
			address := redistest.Listen(t, func(conn net.Conn) {
				var piece [4 << 10]byte
				for {
					n, err := conn.Read(piece[:])
					got.add(piece[:n])
					if err != nil {
						return
					}
					_, _ = conn.Write([]byte(c.answer))
				}
			})
			password := knownSecrets.password()
			s.putPassword(password)
			s.create(at(address), func(spec *scaledjobv1.ScaledJobSpec) { spec.Redis.TLS = &scaledjobv1.RedisTLS{} }, signedIn(tenant))
			s.awaitFalse(scaledjobv1.ConditionQueueConnected, c.reason, "{mode: Disabled}")
			s.Eventually(got.pieces).Should(ContainElement(HavePrefix(string([]byte{handshake}))))
			for _, piece := range got.pieces() {
				s.Expect(piece).NotTo(Or(ContainSubstring(password), MatchRegexp("(?i)auth|hello")))
			}

			s.Update(inClearText)
			s.Eventually(got.pieces).Should(ContainElement(ContainSubstring(password)))
		})
	}
}

// heard is what a server has read.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) add(piece []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, string(piece))
}

func (h *heard) pieces() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// Servers say what they do not understand.
func TestServersThatRepeatWhatTheyAreTold(t *testing.T) {
	t.Parallel()
	const lament = "ERR what might this be"
	repeat := func(args []string) string { return "-" + lament + ": '" + strings.Join(args, "' '") + "'\r\n" }
	var greeting atomic.Value
	for name, script := range map[string]redistest.Script{
		"at once": repeat,
		"quoted": func(args []string) string {
			quoted := make([]string, len(args))
			for i, arg := range args {
				quoted[i] = strconv.Quote(arg)
			}
			return "-" + lament + ": " + strings.Join(quoted, " ") + "\r\n"
		},
		"cut off as Redis does": func(args []string) string {
			arguments := "'" + strings.Join(args[1:], "' '")
			return "-" + lament + ", with args beginning with: " + arguments[:min(len(arguments), 128)] + "' \r\n"
		},
		"at the end of what is logged": func(args []string) string {
			return "-" + lament + strings.Repeat(" ", 1<<10-len(lament)-20) + args[len(args)-1] + "\r\n"
		},
		"as a farewell": func(args []string) string {
			if args[0] == "hello" {
				greeting.Store(args)
				return redistest.Usual
			}
			return repeat(greeting.Load().([]string))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			server := redistest.NewScripted(t, script)
			s.putPassword(knownSecrets.password() + strings.Repeat("-", 100))
			s.create(at(server.Addr()), signedIn(tenant))
			s.awaitFalse(scaledjobv1.ConditionQueueConnected, scaledjobv1.ReasonUnreachable, "")
			s.Eventually(func() string { return s.Operator.LogsAbout(s.Namespace) }).Should(ContainSubstring(lament))
		})
	}
}
