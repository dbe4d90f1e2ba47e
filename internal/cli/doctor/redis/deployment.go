// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
)

// askSentinels asks all sentinels for the master, and returns the addresses that they name, each once.
func (l *look) askSentinels(ctx context.Context) []string {
	var masters []string
	for _, address := range l.Addresses {
		is := l.askSentinel(ctx, address)
		if is.Master != "" && !slices.Contains(masters, is.Master) {
			masters = append(masters, is.Master)
		}
		l.facts.Sentinels = append(l.facts.Sentinels, is)
	}
	return masters
}

func (l *look) askSentinel(ctx context.Context, address string) Sentinel {
	s := open(ctx, address, &l.Sentinels, 0)
	defer s.close()
	is := Sentinel{Server: s.Server}
	if !s.Reached() {
		return is
	}
	reply, err := s.do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", l.MasterName)
	if err != nil {
		is.Failed, is.Err = SignIn, refusal(err)
		return is
	}
	if pair, isPair := reply.([]any); isPair && len(pair) == 2 {
		host, _ := pair[0].(string)
		port, _ := pair[1].(string)
		is.Master = net.JoinHostPort(host, port)
	}
	// What it says of the master only completes the picture, so that it need not be allowed.
	about, _ := s.do(ctx, "SENTINEL", "MASTER", l.MasterName)
	fields := texts(about)
	is.Down = strings.Contains(fields["flags"], "_down") || strings.Contains(fields["flags"], "disconnected")
	is.Quorum, _ = strconv.Atoi(fields["quorum"])
	if others, err := strconv.Atoi(fields["num-other-sentinels"]); err == nil {
		is.Sentinels = others + 1
	}
	return is
}

// texts returns the fields of a reply, which are a map in RESP3 and a list in RESP2.
func texts(reply any) map[string]string {
	all := map[string]string{}
	switch fields := reply.(type) {
	case map[any]any:
		for key, value := range fields {
			name, _ := key.(string)
			all[name], _ = value.(string)
		}
	case []any:
		for i := 0; i+1 < len(fields); i += 2 {
			name, _ := fields[i].(string)
			all[name], _ = fields[i+1].(string)
		}
	}
	return all
}

// mostNodes is how many masters of a Cluster are looked at.
const mostNodes = 16

// seeCluster asks a node for the masters, and connects to each at the address that is announced.
func (l *look) seeCluster(ctx context.Context, s *session) *Cluster {
	reply, err := s.do(ctx, "CLUSTER", "SLOTS")
	if err != nil {
		return &Cluster{Err: refusal(err)}
	}
	covered, addresses := ranges(reply, s.Address)
	is := &Cluster{Covered: &covered}
	for _, address := range addresses[:min(len(addresses), mostNodes)] {
		node := open(ctx, address, &l.Access, 0)
		is.Nodes = append(is.Nodes, node.Server)
		node.close()
	}
	return is
}

// ranges returns the number of slots with a master, and the addresses of the masters. An empty host stands for that of
// the node which was asked.
func ranges(reply any, asked string) (covered int, addresses []string) {
	all, _ := reply.([]any)
	for _, each := range all {
		fields, _ := each.([]any)
		if len(fields) < 3 {
			continue
		}
		first, _ := fields[0].(int64)
		last, _ := fields[1].(int64)
		covered += int(last-first) + 1
		master, _ := fields[2].([]any)
		if len(master) < 2 {
			continue
		}
		host, _ := master[0].(string)
		port, _ := master[1].(int64)
		if host == "" {
			host, _, _ = net.SplitHostPort(asked)
		}
		if address := net.JoinHostPort(host, strconv.FormatInt(port, 10)); !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	return covered, addresses
}

// ownerOf opens a session with the node that has the key, if the first one says that it is another.
func (l *look) ownerOf(ctx context.Context, first *session, key *Key) *session {
	if !l.Cluster || len(key.Commands) == 0 {
		return nil
	}
	_, err := first.do(ctx, key.Commands[0].Args...)
	address := movedTo(err)
	if address == "" {
		return nil
	}
	if host, port, split := strings.Cut(address, ":"); split && host == "" {
		own, _, _ := net.SplitHostPort(first.Address)
		address = net.JoinHostPort(own, port)
	}
	return open(ctx, address, &l.Access, 0)
}
