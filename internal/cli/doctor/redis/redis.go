// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package redis looks at a Redis server, or a deployment of several, once, from where the program runs. It uses the
// client library directly: the connections of the operator are made to live long, to be shared and to be bounded, which
// a single look does not need, and they do not say at which step a connection failed. It only reads, except for a probe
// that the user asks for.
//
//	redis.go       what to look at, and what was seen
//	connect.go     a connection, step by step: DNS, TCP, TLS, AUTH
//	keys.go        the commands that the operator runs, and how the server reports changes
//	deployment.go  sentinels and the nodes of a Cluster
//	similar.go     keys with similar names, and the probe
//
// No text of the server is in what was seen, except for its version, addresses, and names of keys; a server could
// repeat the password.
package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// stepTimeout bounds each step of a connection and each command, and lookTimeout everything together.
	stepTimeout = 3 * time.Second
	lookTimeout = 45 * time.Second
)

// Access says how to sign in to a server and how to verify it.
type Access struct {
	Username, Password string
	// TLS is nil for a connection without TLS. An empty ServerName stands for the host of the address.
	TLS *tls.Config
}

// Format prevents that fmt prints the password, whatever the verb.
func (Access) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "credentials") }

// Target is what to look at.
type Target struct {
	// Addresses are those of the server, of sentinels if MasterName is set, or of nodes if Cluster is true.
	Addresses []string
	// Instead is an address at which the server with the keys can be reached from here, such as that of a forwarded port.
	Instead    string
	Access     Access
	Database   int
	Cluster    bool
	MasterName string
	Sentinels  Access
	Keys       []Key
	// Channels are those of notifications; none if the operator must not subscribe.
	Channels []string
	// Tracking is true if the operator may track the keys.
	Tracking bool
	// Scan asks for keys with similar names if keys are empty, and Probe for a notification on a scratch key.
	Scan, Probe bool
}

// Key is a key with the commands that read it. The first one returns the number of its messages.
type Key struct {
	Name     string
	Commands []Command
	// Together is true if the commands run in a transaction.
	Together bool
}

// Command is a command that only reads, and what grants it.
type Command struct {
	Args  []any
	Grant string
}

// Step is a step of a connection.
type Step string

// The steps.
const (
	Lookup    Step = "DNS"
	Connect   Step = "TCP"
	Handshake Step = "TLS"
	SignIn    Step = "AUTH"
)

// Server is what was seen of a server.
type Server struct {
	Address string
	// Failed is the step that failed, and Err why; empty if none did.
	Failed Step
	Err    *failure.Error
	// Certificates are those that the server sent, its own first.
	Certificates []*x509.Certificate
	// Mode, Role and Version are what the server says of itself; empty before Redis 6.
	Mode, Role, Version string
	// RESP3 is true if the server speaks the version of the protocol that tracking needs.
	RESP3 bool
}

// Reached reports whether the server has answered a command.
func (s *Server) Reached() bool { return s.Failed == "" }

// KeyState is what was seen of a key.
type KeyState struct {
	Name string
	// Depth is the number of its messages; absent if it could not be read.
	Depth *int64
	// Denied are the permissions that the user lacks, and Refused is the last refusal.
	Denied  []string
	Refused *failure.Error
	// WrongType is true if the key has another type.
	WrongType bool
	// Server is where it was read, if that is another server than the first.
	Server *Server
	// Similar are keys with similar names, if it is empty and they were asked for.
	Similar []string
}

// Changes is how the server reports changes.
type Changes struct {
	// Events are the letters of notify-keyspace-events; absent if the user may not read them.
	Events *string
	// Subscribed and Tracked are nil if that is allowed, or was not asked for.
	Subscribed, Tracked *failure.Error
}

// Sentinel is what was seen of a sentinel.
type Sentinel struct {
	Server

	// Master is the address that it names; empty if it knows no such master.
	Master string
	// Down is true if the sentinel can't reach the master.
	Down bool
	// Sentinels are those that it knows, itself included, and Quorum is how many have to agree; 0 if it does not say.
	Sentinels, Quorum int
}

// Cluster is what was seen of a Redis Cluster.
type Cluster struct {
	// Covered is the number of slots with a master; absent if the user may not ask.
	Covered *int
	// Nodes are the masters at the addresses that are announced.
	Nodes []Server
	Err   *failure.Error
}

// Facts are what was seen.
type Facts struct {
	// Server is the server with the keys, or the first of them that was reached; nil if its address is not known.
	Server    *Server
	Sentinels []Sentinel
	Cluster   *Cluster
	Keys      []KeyState
	Changes   Changes
	// Scanned is the number of keys whose names were compared, and ScanErr why no more were.
	Scanned int
	ScanErr *failure.Error
	Probe   *Probe
}

// Probe is what was seen of a notification on a scratch key.
type Probe struct {
	Key     string
	Arrived bool
	Err     *failure.Error
}

// Look looks at the target once.
func Look(ctx context.Context, target *Target) *Facts {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	l := &look{Target: target, facts: &Facts{}}
	l.run(ctx)
	return l.facts
}

func (l *look) run(ctx context.Context) {
	// The library asserts the types of replies.
	defer func() {
		if r := recover(); r != nil {
			l.facts.Server = &Server{Address: l.Addresses[0], Failed: SignIn, Err: failure.Classify(fmt.Errorf("malformed reply: %v", r))}
		}
	}()
	first := l.findServer(ctx)
	if first == nil {
		return
	}
	defer first.close()
	l.facts.Server = &first.Server
	if !first.Reached() {
		return
	}
	if l.Cluster {
		l.facts.Cluster = l.seeCluster(ctx, first)
	}
	l.seeKeys(ctx, first)
	if l.Scan {
		l.scan(ctx, first)
	}
	l.facts.Changes = l.seeChanges(ctx, first)
	if l.Probe {
		l.facts.Probe = l.probe(ctx, first)
	}
}

// look is a look that is under way.
type look struct {
	*Target

	facts *Facts
}

// findServer opens a session with the server that has the keys, or the first node that answers. It returns the last one
// that was tried, and nil if there is no address.
func (l *look) findServer(ctx context.Context) *session {
	addresses := l.Addresses
	if l.MasterName != "" {
		addresses = l.askSentinels(ctx)
	}
	if l.Instead != "" {
		addresses = []string{l.Instead}
	}
	var found *session
	for _, address := range addresses {
		if found != nil {
			found.close()
		}
		if found = open(ctx, address, &l.Access, l.Database); found.Reached() {
			break
		}
	}
	return found
}
