// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package redistest starts real Redis servers that keep nothing on disk by default, have keyspace notifications on,
// and can be killed, restarted and paused; and emulates one for the demo.
package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
	"miracle.dev/scaledjob-operator/test/kit/programs"
)

const (
	// DefaultEvents is the server setting the operator recommends for lists:
	// keyspace channels, list commands, generic commands.
	DefaultEvents = "Klg"
	// NoEvents leaves notifications off, as Redis itself does by default.
	NoEvents = "off"

	host = "127.0.0.1"
	// answerTimeout bounds one attempt to find out whether the server is ready.
	answerTimeout = 2 * time.Second
	// commandTimeout bounds a command of a test. It is long, because on a busy machine an answer may be late.
	commandTimeout = 30 * time.Second
	// savedData is the file that the command SAVE writes.
	savedData = "dump.rdb"
)

// Options are the choices of Start. The zero value suits most tests.
type Options struct {
	// Events are the flags of notify-keyspace-events. Empty means DefaultEvents.
	Events string
	// User is a user who may do everything, made for Client. Empty means that
	// Client signs in as nobody: then it may do what the user default may.
	User string
	// TLS has the server speak TLS, and nothing else. Nil is without.
	TLS *TLS
	// Cluster makes the server a node of a Redis Cluster, which has no slots yet.
	Cluster bool
	// Args are further arguments of redis-server, which win over those Start gives: "--maxmemory", "1mb".
	Args []string
	// Log gets progress lines while redis-server is fetched. Nil means none.
	Log io.Writer
}

// Server is a Redis server on 127.0.0.1. It is safe for concurrent use.
type Server struct {
	place

	path   string
	args   []string
	client *redis.Client

	mu      sync.Mutex
	process *sandbox.Process
}

// place is where a server runs: a sandbox, a free port, and the arguments of redis-server to listen there.
type place struct {
	sandbox   *sandbox.Sandbox
	addr      string
	listening []string
	tls       *tls.Config // what clients need, if the server speaks TLS
}

func newPlace(secured *TLS) (p place, err error) {
	if p.sandbox, err = sandbox.New(); err != nil {
		return p, err
	}
	port, err := p.sandbox.Port()
	if err == nil {
		p.addr = net.JoinHostPort(host, strconv.Itoa(port))
		p.listening, err = secured.arguments(p.sandbox.Dir(), strconv.Itoa(port))
	}
	if err == nil {
		p.tls, err = secured.client()
	}
	if err != nil {
		return p, errors.Join(err, p.sandbox.Close())
	}
	return p, nil
}

// Start finds a redis-server, see package programs, starts it on a free port and returns
// when it answers. The context bounds the start, not the life of the server.
func Start(ctx context.Context, opts Options) (*Server, error) {
	path, err := programs.Path(ctx, opts.Log, "redis-server")
	if err != nil {
		return nil, err
	}
	at, err := newPlace(opts.TLS)
	if err != nil {
		return nil, err
	}
	if opts.Cluster {
		bus, err := at.sandbox.Port()
		if err != nil {
			return nil, errors.Join(err, at.sandbox.Close())
		}
		at.listening = append(at.listening, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-config-file", "nodes.conf")
	}
	server := &Server{place: at, path: path, args: arguments(at.listening, opts), client: newClient(at.addr, opts.User, at.tls)}
	if err := server.launch(ctx); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return server, nil
}

// New is Start for a test, at whose end the server is stopped.
func New(tb testing.TB, opts Options) *Server {
	tb.Helper()
	return forTest(tb, "Redis", func(ctx context.Context) (*Server, error) { return Start(ctx, opts) })
}

// forTest starts something, and stops it at the end of the test.
func forTest[S interface{ Stop() error }](tb testing.TB, name string, start func(context.Context) (S, error)) S {
	tb.Helper()
	started, err := start(tb.Context())
	if err != nil {
		tb.Fatalf("starting %s: %v", name, err)
	}
	tb.Cleanup(func() {
		if err := started.Stop(); err != nil {
			tb.Errorf("stopping %s: %v", name, err)
		}
	})
	return started
}

func arguments(listening []string, opts Options) []string {
	args := slices.Concat(listening, []string{
		"--bind", host,
		"--save", "", "--appendonly", "no",
		"--notify-keyspace-events", eventsAtStart(opts.Events),
	})
	if opts.User != "" {
		args = append(args, "--user", opts.User, "on", ">"+opts.User, "~*", "&*", "+@all")
	}
	return append(args, opts.Args...)
}

// eventsAtStart returns the setting for the events of some options.
func eventsAtStart(events string) string {
	switch events {
	case "":
		return DefaultEvents
	case NoEvents:
		return ""
	default:
		return events
	}
}

// newClient makes a client that shows a test what happens: nothing is tried
// twice, and a push is never sent again after a lost answer.
func newClient(addr, user string, config *tls.Config) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                  addr,
		Username:              user,
		Password:              user,
		TLSConfig:             config,
		MaxRetries:            -1,
		DialerRetries:         1,
		DialTimeout:           commandTimeout,
		ReadTimeout:           commandTimeout,
		WriteTimeout:          commandTimeout,
		ContextTimeoutEnabled: true,
	})
}

// Addr returns host:port. It stays the same when the server restarts.
func (p place) Addr() string { return p.addr }

// Client returns a client, which Stop closes.
func (s *Server) Client() *redis.Client { return s.client }

// Kill ends the server with SIGKILL. The port stays reserved.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Kill()
}

// Restart ends the server if it runs and starts an empty one on the same port.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.process.Kill(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(s.sandbox.Dir(), savedData)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting what the server has saved: %w", err)
	}
	return s.launch(ctx)
}

// RestartSaved is Restart, but the server loads what the command SAVE wrote last. It answers LOADING until it is done.
// The arguments are further ones of redis-server, for this time.
func (s *Server) RestartSaved(ctx context.Context, args ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.process.Kill(); err != nil {
		return err
	}
	return s.launch(ctx, args...)
}

// Pause stops the server's process: connections stay open, nothing answers.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Signal(syscall.SIGSTOP)
}

// Resume lets a paused server go on.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Signal(syscall.SIGCONT)
}

// Stop ends the server and removes its files. Stopping again does nothing, and neither does stopping what has not
// started, which is nil.
func (s *Server) Stop() error {
	if s == nil {
		return nil
	}
	err := s.client.Close()
	if errors.Is(err, redis.ErrClosed) {
		err = nil
	}
	return errors.Join(err, s.sandbox.Close())
}

// launch starts the process and waits until it answers.
func (s *Server) launch(ctx context.Context, args ...string) error {
	process, err := s.sandbox.Start("redis-server", s.path, slices.Concat(s.args, args)...)
	if err != nil {
		return err
	}
	s.process = process
	return process.WaitReady(ctx, s.ping)
}

// ping fails unless the server answers, be it with a refusal such as NOAUTH. It
// does not use the client, which logs every dial that fails.
func (s *Server) ping(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	if s.tls != nil {
		conn = tls.Client(conn, s.tls)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return fmt.Errorf("sending PING: %w", err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("waiting for the answer to PING: %w", err)
	}
	return nil
}

// Clients returns what CLIENT LIST says of each connection: its fields by their names.
func (s *Server) Clients(ctx context.Context) (all []map[string]string, err error) {
	list, err := s.client.ClientList(ctx).Result()
	for line := range strings.Lines(list) {
		fields := map[string]string{}
		for field := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		all = append(all, fields)
	}
	return all, err
}

// KillTracking closes the connections on which the server tracks keys, and returns how many there were.
func (s *Server) KillTracking(ctx context.Context) (killed int, err error) {
	clients, err := s.Clients(ctx)
	for _, client := range clients {
		if !strings.Contains(client["flags"], "t") {
			continue
		}
		ended, err := s.client.ClientKillByFilter(ctx, "ID", client["id"]).Result()
		if err != nil {
			return killed, err
		}
		killed += int(ended)
	}
	return killed, err
}
