// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const (
	namespace  = "team"
	secretName = "redis"
)

// password is the key of the Secret that has the password.
var password = inSecret("password")

func inSecret(key string) auth.SecretKey {
	return auth.SecretKey{Name: secretName, Key: key}
}

// fakeSecrets has one Secret with these data, none if they are nil, or returns an error. It is safe for concurrent use.
type fakeSecrets struct {
	mu    sync.Mutex
	data  map[string][]byte
	err   error
	reads int
}

func newSecrets(data map[string]string) *fakeSecrets {
	f := &fakeSecrets{}
	f.set(data)
	return f
}

func (f *fakeSecrets) set(data map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data = nil
	if data != nil {
		f.data = map[string][]byte{}
	}
	for key, value := range data {
		f.data[key] = []byte(value)
	}
}

func (f *fakeSecrets) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakeSecrets) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

func (f *fakeSecrets) Read(_ context.Context, from, name string) (map[string][]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	switch {
	case f.err != nil:
		return nil, f.err
	case from != namespace || name != secretName || f.data == nil:
		return nil, &failure.Error{Reason: failure.ReasonSecretNotFound, Message: "none", Err: errors.New("not found")}
	}
	return maps.Clone(f.data), nil
}

// quick shortens the intervals.
func quick(p *Pool) {
	p.timing.reread, p.timing.refusedAuth = 50*time.Millisecond, 200*time.Millisecond
}

// withSecrets makes a pool read these Secrets.
func withSecrets(secrets auth.Secrets) func(*Pool) {
	return func(p *Pool) { p.resolver = auth.NewResolver(secrets, false) }
}

// user creates a user with few permissions on a server, and returns the endpoint with this user.
func user(t *testing.T, server *redistest.Server, name, secret string, rights ...string) auth.Endpoint {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">" + secret, "~*", "&*", "+ping", "+subscribe", "+unsubscribe", "+llen"}
	for _, right := range rights {
		args = append(args, right)
	}
	if err := server.Client().Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	return auth.Endpoint{Address: server.Addr(), Username: name, Password: password, Namespace: namespace}
}

// reasonOf makes a call and returns the reason of its failure, or "".
func reasonOf(t *testing.T, conn *Conn) string {
	t.Helper()
	_, err := readLength(t.Context(), conn)
	if err == nil {
		return ""
	}
	return string(failure.Classify(err).Reason)
}

func TestAUserOfFewPermissionsIsEnough(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	g.Expect(server.Client().LPush(t.Context(), "emails", 1, 2).Err()).To(Succeed())
	secrets := newSecrets(map[string]string{"password": "open sesame\r\n"})
	endpoint := user(t, server, "reader", "open sesame")
	g.Expect(server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "resetpass", ">other").Err()).To(Succeed())
	conn := startReal(t, withSecrets(secrets)).Conn(endpoint, 0)
	g.Expect(length(t, conn)).To(BeEquivalentTo(2))

	wire := openWire(t, conn)
	g.Expect(ask(wire, "subscribe", "news")).To(BeEquivalentTo([]any{"subscribe", "news", int64(1)}))
	g.Expect(secrets.count()).To(Equal(1), "the Secret is read once")
}

func TestAUserWithoutAPassword(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{User: "tester"})
	g.Expect(server.Client().Do(t.Context(), "ACL", "SETUSER", "reader", "on", "nopass", "~*", "+llen").Err()).To(Succeed())
	g.Expect(server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "off").Err()).To(Succeed())
	g.Expect(length(t, startReal(t).Conn(auth.Endpoint{Address: server.Addr(), Username: "reader"}, 0))).To(BeZero())
}

func TestDatabasesOfOneEndpoint(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	for _, database := range []int{0, 3} {
		_, err := server.Client().Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			pipe.Select(t.Context(), database)
			for range database + 1 {
				pipe.LPush(t.Context(), "emails", 1)
			}
			pipe.Select(t.Context(), 0)
			return nil
		})
		g.Expect(err).NotTo(HaveOccurred())
	}
	pool := startReal(t)
	endpoint := auth.Endpoint{Address: server.Addr()}
	g.Expect(length(t, pool.Conn(endpoint, 0))).To(BeEquivalentTo(1))
	g.Expect(length(t, pool.Conn(endpoint, 3))).To(BeEquivalentTo(4))

	_, err := readLength(t.Context(), pool.Conn(endpoint, 99))
	g.Expect(err).To(MatchError(ContainSubstring("DB index is out of range")))
	g.Expect(length(t, pool.Conn(endpoint, 3))).To(BeEquivalentTo(4), "the other databases still work")
}

func TestAUserWhoMayNotChooseADatabase(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	endpoint := user(t, server, "reader", "open sesame")
	pool := startReal(t, withSecrets(newSecrets(map[string]string{"password": "open sesame"})))
	g.Expect(reasonOf(t, pool.Conn(endpoint, 3))).To(Equal(string(failure.ReasonPermissionDenied)))
	g.Expect(length(t, pool.Conn(endpoint, 0))).To(BeZero(), "the other databases still work")
	wire, err := pool.Conn(endpoint, 3).OpenWire(t.Context())
	g.Expect(err).NotTo(HaveOccurred(), "subscriptions need no database")
	wire.Close()
}

// The password is sent before the server has shown that it is Redis. Another kind of server could run a line of it as a
// command.
func TestAPasswordIsNoCommand(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	said := make(chan string, 100)
	address := redistest.Listen(t, func(conn net.Conn) {
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			said <- lines.Text()
			_, _ = conn.Write([]byte("ERROR\r\n"))
		}
	})
	endpoint := auth.Endpoint{Address: address, Password: password, Namespace: namespace}
	for _, value := range []string{"x\r\nflush_all\r\nx", "x\nflush_all\n\n", "x\rflush_all\r\r\n"} {
		secrets := withSecrets(newSecrets(map[string]string{"password": value}))
		_, err := readLength(t.Context(), startReal(t, secrets).Conn(endpoint, 0))
		g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonSecretInvalid))
		g.Expect(failure.Classify(err).Message).To(ContainSubstring("several lines"))
	}
	g.Expect(said).To(BeEmpty())
}

func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, server *redistest.Server, secrets *fakeSecrets){
		"wrong password": func(_ *testing.T, _ *redistest.Server, secrets *fakeSecrets) {
			secrets.set(map[string]string{"password": "wrong"})
		},
		"user off": func(t *testing.T, server *redistest.Server, _ *fakeSecrets) {
			t.Helper()
			NewWithT(t).Expect(server.Client().Do(t.Context(), "ACL", "SETUSER", "reader", "off").Err()).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server := redistest.New(t, redistest.Options{})
			secrets := newSecrets(map[string]string{"password": "open sesame"})
			endpoint := user(t, server, "reader", "open sesame")
			prepare(t, server, secrets)
			conn := startReal(t, withSecrets(secrets), quick).Conn(endpoint, 0)
			g.Expect(reasonOf(t, conn)).To(Equal(string(failure.ReasonAuthFailed)))

			secrets.set(map[string]string{"password": "open sesame"})
			g.Expect(server.Client().Do(t.Context(), "ACL", "SETUSER", "reader", "on").Err()).To(Succeed())
			g.Expect(conn.WaitUp(t.Context())).To(Succeed())
			g.Expect(length(t, conn)).To(BeZero())
		})
	}
}

// tlsEndpoint returns an endpoint whose server is verified with the CA in the Secret.
func tlsEndpoint(address string) auth.Endpoint {
	return auth.Endpoint{Address: address, Namespace: namespace, TLS: auth.TLS{Enabled: true, CA: inSecret("ca.crt")}}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	authority, other := certificates.NewAuthority(t), certificates.NewAuthority(t)
	right, client := authority.Server(t, "127.0.0.1", "redis.example"), authority.Client(t, "operator")
	stranger := other.Client(t, "stranger")
	secret := map[string]string{
		"ca.crt":  string(authority.Certificate()),
		"tls.crt": string(client.Certificate), "tls.key": string(client.Key),
		"stranger.crt": string(stranger.Certificate), "stranger.key": string(stranger.Key),
	}
	shows := func(certificate, key string) func(*auth.Endpoint) {
		return func(e *auth.Endpoint) {
			e.TLS.Certificate, e.TLS.PrivateKey = inSecret(certificate), inSecret(key)
		}
	}
	expects := func(name string) func(*auth.Endpoint) {
		return func(e *auth.Endpoint) { e.TLS.ServerName = name }
	}
	asIs := func(*auth.Endpoint) { /* nothing to change */ }
	for name, test := range map[string]struct {
		server  redistest.TLS
		change  func(*auth.Endpoint)
		allowed bool
		failed  string
	}{
		"known":                       {redistest.TLS{Server: right}, asIs, false, ""},
		"known by another name":       {redistest.TLS{Server: right}, expects("redis.example"), false, ""},
		"wrong name":                  {redistest.TLS{Server: right}, expects("other.example"), false, "other.example"},
		"wrong address":               {redistest.TLS{Server: authority.Server(t, "redis.example")}, asIs, false, "IP SAN"},
		"expired":                     {redistest.TLS{Server: authority.Expired(t, "127.0.0.1")}, asIs, false, "expired"},
		"not yet valid":               {redistest.TLS{Server: authority.Future(t, "127.0.0.1")}, asIs, false, "not yet valid"},
		"unknown authority":           {redistest.TLS{Server: other.Server(t, "127.0.0.1")}, asIs, false, "unknown authority"},
		"unknown to the system":       {redistest.TLS{Server: right}, func(e *auth.Endpoint) { e.TLS.CA = auth.SecretKey{} }, false, "unknown authority"},
		"any, allowed":                {redistest.TLS{Server: other.Expired(t)}, func(e *auth.Endpoint) { e.TLS.SkipVerify = true }, true, ""},
		"any, not allowed":            {redistest.TLS{Server: right}, func(e *auth.Endpoint) { e.TLS.SkipVerify = true }, false, "switched off"},
		"shows its certificate":       {redistest.TLS{Server: right, ClientCA: authority.Certificate(), Client: client}, shows("tls.crt", "tls.key"), false, ""},
		"shows none":                  {redistest.TLS{Server: right, ClientCA: authority.Certificate(), Client: client}, asIs, false, "certificate required"},
		"shows that of a stranger":    {redistest.TLS{Server: right, ClientCA: authority.Certificate(), Client: client}, shows("stranger.crt", "stranger.key"), false, "unknown certificate authority"},
		"certificate of another key":  {redistest.TLS{Server: right}, shows("tls.crt", "stranger.key"), false, "cannot be used"},
		"a key that is a certificate": {redistest.TLS{Server: right}, shows("tls.crt", "tls.crt"), false, "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server := redistest.New(t, redistest.Options{TLS: &test.server})
			endpoint := tlsEndpoint(server.Addr())
			test.change(&endpoint)
			pool := startReal(t, func(p *Pool) { p.resolver = auth.NewResolver(newSecrets(secret), test.allowed) })
			conn := pool.Conn(endpoint, 2)
			if test.failed == "" {
				g.Expect(length(t, conn)).To(BeZero())
				openWire(t, conn).Close()
				return
			}
			_, err := readLength(t.Context(), conn)
			g.Expect(err).To(MatchError(ContainSubstring(test.failed)))
			if strings.HasPrefix(test.failed, "cannot") {
				g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonSecretInvalid))
				g.Expect(failure.Classify(err).Message).To(ContainSubstring(fmt.Sprintf("%q of the Secret %q", "tls.crt", secretName)))
			} else {
				g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonTLSFailed))
			}
		})
	}
}

func TestAHandshakeThatStalls(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	address := redistest.Listen(t, func(conn net.Conn) {
		for buffer := make([]byte, 1<<10); ; {
			if _, err := conn.Read(buffer); err != nil {
				return
			}
		}
	})
	secrets := withSecrets(newSecrets(map[string]string{"ca.crt": string(certificates.NewAuthority(t).Certificate())}))
	conn := startReal(t, secrets, func(p *Pool) { p.timing.openTimeout = 100 * time.Millisecond }).Conn(tlsEndpoint(address), 0)
	_, err := readLength(t.Context(), conn)
	g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonUnreachable))
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	_, said := errors.AsType[*failure.HandshakeError](err)
	g.Expect(said).To(BeTrue(), "the error says that the handshake took too long")
}
