// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const (
	// loopback is the host of every server here.
	loopback = "127.0.0.1"
	// administrator is the user of a server for the tests themselves. The operator never gets to be that.
	administrator = "administrator"
	// allEvents announces the growth of keys of every type.
	allEvents = "Kgshzlt"
	// tenant is the user whom the operator signs in as.
	tenant = "tenant"
)

// server is a Redis server of a test. By its plain port the administrator looks after it, whatever becomes of TLS.
type server struct {
	*redistest.Server
	*WithT
	t *testing.T
	// folder holds the files for TLS, and securePort is where it is spoken. Both are empty without TLS.
	folder, securePort string
}

// newClosedServer starts a server where everybody has to sign in.
func newClosedServer(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{
		Server: redistest.New(t, redistest.Options{User: administrator, Events: allEvents, Args: args}), WithT: NewWithT(t), t: t,
	}
	s.do("ACL", "SETUSER", "default", "off")
	return s
}

// newSecureServer starts a server that speaks TLS on a port of its own, shows this
// certificate, and asks for those of clients if there is an authority for them.
func newSecureServer(t *testing.T, shown certificates.Pair, clients *certificates.Authority) *server {
	t.Helper()
	ports, err := sandbox.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Close() })
	port, err := ports.Port()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{WithT: NewWithT(t), t: t, folder: t.TempDir(), securePort: strconv.Itoa(port)}
	args := []string{"--tls-port", s.securePort, "--tls-auth-clients", "no"}
	if clients != nil {
		file := s.write("clients.crt", clients.Certificate())
		args = []string{"--tls-port", s.securePort, "--tls-auth-clients", "yes", "--tls-ca-cert-file", file}
	}
	certificate, key := s.writePair(shown)
	args = append(args, "--tls-cert-file", certificate, "--tls-key-file", key)
	s.Server = redistest.New(t, redistest.Options{User: administrator, Events: allEvents, Args: args})
	return s
}

// secureAddr is where the server speaks TLS.
func (s *server) secureAddr() string { return net.JoinHostPort(loopback, s.securePort) }

// show has the server show another certificate to those who connect from now on.
func (s *server) show(shown certificates.Pair) {
	s.t.Helper()
	certificate, key := s.writePair(shown)
	s.do("CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key)
}

// believe has the server believe clients whom this authority vouches for, instead of those that it believed.
func (s *server) believe(clients *certificates.Authority) {
	s.t.Helper()
	s.do("CONFIG", "SET", "tls-ca-cert-file", s.write("clients.crt", clients.Certificate()))
}

// writePair writes a certificate and its key. Each pair has file names of its own, as
// the server reads both when it is told their names.
func (s *server) writePair(shown certificates.Pair) (certificate, key string) {
	s.t.Helper()
	knownSecrets.key(shown.Key)
	files := must.Get(os.ReadDir(s.folder))(s)
	name := strconv.Itoa(len(files))
	return s.write(name+".crt", shown.Certificate), s.write(name+".key", shown.Key)
}

func (s *server) write(name string, content []byte) (path string) {
	s.t.Helper()
	path = filepath.Join(s.folder, name)
	s.Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
	return path
}

// in is a client of the administrator for this database.
func (s *server) in(database int) *redis.Client {
	options := *s.Client().Options()
	options.DB = database
	client := redis.NewClient(&options)
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// do has the administrator send a command.
func (s *server) do(command ...any) *redis.Cmd {
	s.t.Helper()
	answer := s.Client().Do(s.context(), command...)
	s.Expect(answer.Err()).NotTo(HaveOccurred())
	return answer
}

// context is that of the test, and goes on while its cleanups run.
func (s *server) context() context.Context { return context.WithoutCancel(s.t.Context()) }

// user makes a user with this password and just these rights.
func (s *server) user(name, password string, rights ...string) {
	s.t.Helper()
	command := []any{"ACL", "SETUSER", name, "reset", "on", ">" + password}
	for _, right := range rights {
		command = append(command, right)
	}
	s.do(command...)
}

// permit changes what the tenant may do.
func (s *server) permit(rights ...string) {
	s.t.Helper()
	command := []any{"ACL", "SETUSER", tenant}
	for _, right := range rights {
		command = append(command, right)
	}
	s.do(command...)
}

// connections are those of a user.
func (s *server) connections(user string) []map[string]string {
	s.t.Helper()
	all := must.Get(s.Clients(s.context()))(s)
	return slices.DeleteFunc(all, func(c map[string]string) bool { return c["user"] != user })
}

// subscribers are those connections of a user that are subscribed to anything.
func (s *server) subscribers(user string) []map[string]string {
	s.t.Helper()
	return slices.DeleteFunc(s.connections(user), func(c map[string]string) bool { return c["sub"] == "0" })
}

// identifiers are the numbers that the server has given to connections of a user.
func (s *server) identifiers(user string) (all []string) {
	s.t.Helper()
	for _, c := range s.connections(user) {
		all = append(all, c["id"])
	}
	return all
}

// refusals are what the server has refused to a user, as ACL LOG lists it: the reason and what it was about.
func (s *server) refusals(user string) (all []string) {
	s.t.Helper()
	entries := must.Get(s.Client().ACLLog(s.context(), 100).Result())(s)
	for _, entry := range entries {
		if entry.Username == user {
			all = append(all, entry.Reason+" "+entry.Object)
		}
	}
	return all
}
