// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"k8s.io/apimachinery/pkg/util/wait"

	"miracle.dev/scaledjob-operator/test/kit/programs"
)

// MasterName is the name that the sentinels of StartReplicated have for the master.
const MasterName = "jobs"

const (
	// downAfter is how long the master may be silent until a sentinel counts it as down.
	downAfter = time.Second
	// formTimeout bounds the time until servers know each other.
	formTimeout  = 30 * time.Second
	lookInterval = 50 * time.Millisecond
)

// ReplicatedOptions are the choices of StartReplicated.
type ReplicatedOptions struct {
	// Options are those of each server with data.
	Options

	// Replicas and Sentinels are how many there are. 0 means 2 and 3.
	Replicas, Sentinels int
	// SentinelPassword is what the sentinels ask for; empty for none.
	SentinelPassword string
	// SentinelConfig are further lines of the configuration of each sentinel.
	SentinelConfig []string
	// Front returns the address at which the others reach the master, instead of its own. Nil means its own.
	Front func(master string) string
}

// Replicated is a master with replicas, and sentinels that choose another master if it fails.
type Replicated struct {
	// Servers have the data. The first one is the master at the beginning.
	Servers []*Server
	// Sentinels watch them.
	Sentinels []*Server

	opts ReplicatedOptions
	// master is where the first server is reached.
	master string
}

// StartReplicated starts servers and sentinels, and returns when all sentinels know each other and the replicas.
func StartReplicated(ctx context.Context, opts ReplicatedOptions) (_ *Replicated, err error) {
	if opts.Replicas == 0 {
		opts.Replicas = 2
	}
	if opts.Sentinels == 0 {
		opts.Sentinels = 3
	}
	r := &Replicated{opts: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Stop())
		}
	}()
	for i := range opts.Replicas + 1 {
		each := opts.Options
		each.Args = append([]string{"--repl-diskless-sync-delay", "0"}, each.Args...)
		if i > 0 {
			host, port, _ := strings.Cut(r.master, ":")
			each.Args = append(each.Args, "--replicaof", host+" "+port)
		}
		server, err := Start(ctx, each)
		if err != nil {
			return nil, err
		}
		r.Servers = append(r.Servers, server)
		switch {
		case i > 0:
		case opts.Front == nil:
			r.master = server.Addr()
		default:
			r.master = opts.Front(server.Addr())
		}
	}
	for range opts.Sentinels {
		if _, err := r.AddSentinel(ctx); err != nil {
			return nil, err
		}
	}
	return r, r.AwaitFormed(ctx)
}

// NewReplicated is StartReplicated for a test, at whose end everything is stopped.
func NewReplicated(tb testing.TB, opts ReplicatedOptions) *Replicated {
	tb.Helper()
	return forTest(tb, "Redis with sentinels", func(ctx context.Context) (*Replicated, error) { return StartReplicated(ctx, opts) })
}

// AddSentinel starts another sentinel, with further lines in its configuration, in which it keeps what it knows. It
// does not wait until the others know it.
func (r *Replicated) AddSentinel(ctx context.Context, config ...string) (*Server, error) {
	opts := r.opts
	path, err := programs.Path(ctx, opts.Log, "redis-server")
	if err != nil {
		return nil, err
	}
	at, err := newPlace(opts.TLS)
	if err != nil {
		return nil, err
	}
	lines := []string{
		"bind " + host, "dir " + at.sandbox.Dir(),
		fmt.Sprintf("sentinel monitor %s %s %d", MasterName, strings.Replace(r.master, ":", " ", 1), opts.Sentinels/2+1),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterName, downAfter.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", MasterName, (5 * time.Second).Milliseconds()),
	}
	if opts.SentinelPassword != "" {
		lines = append(lines, "requirepass "+opts.SentinelPassword)
	}
	if opts.User != "" {
		lines = append(lines, "sentinel auth-user "+MasterName+" "+opts.User, "sentinel auth-pass "+MasterName+" "+opts.User)
	}
	for option := range slices.Chunk(at.listening, 2) {
		lines = append(lines, strings.TrimPrefix(option[0], "--")+" "+option[1])
	}
	lines = slices.Concat(lines, opts.SentinelConfig, config)
	file := filepath.Join(at.sandbox.Dir(), "sentinel.conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, errors.Join(err, at.sandbox.Close())
	}
	client := newClient(at.addr, "", at.tls)
	client.Options().Password = opts.SentinelPassword
	sentinel := &Server{place: at, path: path, args: []string{file, "--sentinel"}, client: client}
	if err := sentinel.launch(ctx); err != nil {
		return nil, errors.Join(err, sentinel.Stop())
	}
	r.Sentinels = append(r.Sentinels, sentinel)
	return sentinel, nil
}

// AwaitFormed waits until all sentinels know each other and name the same master, and all other servers have its data.
// It asks again after errors, because a failover ends connections.
func (r *Replicated) AwaitFormed(ctx context.Context) error {
	var missing error
	err := wait.PollUntilContextTimeout(ctx, lookInterval, formTimeout, true, func(ctx context.Context) (bool, error) {
		missing = r.formed(ctx)
		return missing == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until sentinels know each other: %w", errors.Join(err, missing))
	}
	return nil
}

// formed returns an error that says what is missing, or nil.
func (r *Replicated) formed(ctx context.Context) error {
	for _, sentinel := range r.Sentinels {
		known := redis.NewMapStringStringCmd(ctx, "sentinel", "master", MasterName)
		if err := sentinel.Client().Process(ctx, known); err != nil {
			return err
		}
		replicas, others := known.Val()["num-slaves"], known.Val()["num-other-sentinels"]
		if replicas != fmt.Sprint(len(r.Servers)-1) || others != fmt.Sprint(len(r.Sentinels)-1) {
			return fmt.Errorf("the sentinel at %s knows %s replicas and %s sentinels", sentinel.Addr(), replicas, others)
		}
	}
	replicas := 0
	for _, server := range r.Servers {
		info, err := server.Client().Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		if strings.Contains(info, "master_link_status:up") {
			replicas++
		}
	}
	if replicas != len(r.Servers)-1 {
		return fmt.Errorf("%d servers are replicas", replicas)
	}
	return nil
}

// Addresses are those of the sentinels.
func (r *Replicated) Addresses() (all []string) {
	for _, each := range r.Sentinels {
		all = append(all, each.Addr())
	}
	return all
}

// Master returns the server that a sentinel names.
func (r *Replicated) Master(ctx context.Context, by *Server) (*Server, error) {
	found, err := by.Client().Do(ctx, "sentinel", "get-master-addr-by-name", MasterName).StringSlice()
	if err != nil {
		return nil, err
	}
	for _, each := range r.Servers {
		if each.Addr() == net.JoinHostPort(found[0], found[1]) {
			return each, nil
		}
	}
	return nil, fmt.Errorf("the sentinel names %v, which is none of the servers", found)
}

// Failover has a sentinel make another server the master, although the present one works.
func (r *Replicated) Failover(ctx context.Context, by *Server) error {
	return by.Client().Do(ctx, "sentinel", "failover", MasterName).Err()
}

// Stop stops all servers and sentinels.
func (r *Replicated) Stop() (err error) {
	for _, each := range append(r.Sentinels, r.Servers...) {
		err = errors.Join(err, each.Stop())
	}
	return err
}
