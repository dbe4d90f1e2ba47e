// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

const (
	host = "127.0.0.1"

	// Ports come from below the ranges systems take outgoing ports from. Else a client redialling a server that is down
	// could be given the server's own port, connect to itself and keep the server from coming back.
	lowestPort  = 10_000
	highestPort = 29_999

	portAttempts = 100
)

// portClaim reserves a TCP port among all sandboxes of all processes by holding the UDP port of the same number, which
// the kernel frees when the process ends.
type portClaim struct{ net.PacketConn }

// Port returns a TCP port of 127.0.0.1 that is free and that no other sandbox
// gets before this one is closed, whether or not anything listens on it.
func (s *Sandbox) Port() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errors.New("reserving a port: the sandbox is closed")
	}
	var err error
	for range portAttempts {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		var claim portClaim
		if claim, err = claimPort(port); err == nil {
			s.ports = append(s.ports, claim)
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port after %d attempts: %w", portAttempts, err)
}

// Address returns 127.0.0.1 with a Port.
func (s *Sandbox) Address() (string, error) {
	port, err := s.Port()
	return net.JoinHostPort(host, strconv.Itoa(port)), err
}

// claimPort asks for a listener by dialling. Listening for a moment would show that too, but a child being forked
// meanwhile would inherit the socket and keep the port for longer.
func claimPort(port int) (portClaim, error) {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		return portClaim{}, fmt.Errorf("reserving port %d: %w", port, err)
	}
	conn, err := net.Dial("tcp", address)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return portClaim{udp}, nil
	}
	if err == nil {
		err = errors.Join(fmt.Errorf("port %d has a listener", port), conn.Close())
	}
	return portClaim{}, errors.Join(err, udp.Close())
}
