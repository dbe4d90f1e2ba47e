// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package dialguard_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/dialguard"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestANameIsJudgedByWhatItPointsTo(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fd00:ec2::254", "0.0.0.0", "::",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			conn, err := dialer(t, dialguard.Policy{}, address).DialContext(t.Context(), "tcp", "redis.example.:6379")
			expectDialDenied(NewWithT(t), conn, err)
		})
	}
}

func TestEachAddressOfANameIsJudged(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, port := listen(t)
	policy := dialguard.Policy{Deny: prefixes(t, "127.0.0.2")}

	conn, err := dialer(t, policy, "169.254.169.254", "127.0.0.2", server).DialContext(t.Context(), "tcp", "redis.example.:"+port)
	g.Expect(err).NotTo(HaveOccurred(), "the policy allows one of the addresses")
	g.Expect(conn.RemoteAddr().String()).To(Equal(net.JoinHostPort(server, port)))
	g.Expect(conn.Close()).To(Succeed())

	conn, err = dialer(t, policy, "169.254.169.254", "127.0.0.2").DialContext(t.Context(), "tcp", "redis.example.:"+port)
	expectDialDenied(g, conn, err)
}

func TestAnAddressThatIsNoNameIsJudgedToo(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, port := listen(t)
	inPod := dialer(t, dialguard.Policy{RefuseLoopback: true})
	for _, host := range []string{server, "::ffff:" + server, "0.0.0.0", "::", ""} {
		conn, err := inPod.DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		expectDialDenied(g, conn, err)
	}
	conn := must.Get(dialer(t, dialguard.Policy{}).DialContext(t.Context(), "tcp", net.JoinHostPort(server, port)))(g)
	g.Expect(conn.Close()).To(Succeed())
}

func expectDialDenied(g Gomega, conn net.Conn, err error) {
	g.Expect(conn).To(BeNil())
	var denied *dialguard.DeniedError
	g.Expect(errors.As(err, &denied)).To(BeTrue(), "%v", err)
}

// dialer returns a dialer that uses the policy and resolves every name to these addresses.
func dialer(t *testing.T, policy dialguard.Policy, addresses ...string) *net.Dialer {
	t.Helper()
	nameServer := serveNames(t, addresses)
	return &net.Dialer{ControlContext: policy.Control, Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp", nameServer)
		},
	}}
}

// listen accepts connections until the test ends. It returns the address and the port.
func listen(t *testing.T) (host, port string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(NewWithT(t))
	t.Cleanup(func() { _ = listener.Close() })
	address := listener.Addr().(*net.TCPAddr)
	return address.IP.String(), strconv.Itoa(address.Port)
}

// serveNames runs a DNS server until the test ends.
func serveNames(t *testing.T, addresses []string) (address string) {
	t.Helper()
	socket := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(NewWithT(t))
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		query := make([]byte, 512)
		for {
			n, client, err := socket.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = socket.WriteTo(answer(query[:n], addresses), client)
		}
	}()
	return socket.LocalAddr().String()
}

// Constants of DNS messages in RFC 1035 and RFC 3596.
const (
	headerLength = 12
	typeA        = 1
	typeAAAA     = 28
)

// answer returns the response to a DNS query: those of the addresses that have the requested type.
func answer(query []byte, addresses []string) []byte {
	end := headerLength
	for query[end] != 0 {
		end += 1 + int(query[end])
	}
	end += 1 + 4 // the final label, the type, the class
	response := append([]byte{}, query[:end]...)
	asked := binary.BigEndian.Uint16(response[end-4:])
	count := uint16(0)
	for _, text := range addresses {
		address := netip.MustParseAddr(text)
		if address.Is4() && asked != typeA || address.Is6() && asked != typeAAAA {
			continue
		}
		count++
		bytes := address.AsSlice()
		response = append(response, 0xc0, headerLength) // the name of the question
		response = binary.BigEndian.AppendUint16(response, asked)
		response = append(response, 0, 1, 0, 0, 0, 0, 0, byte(len(bytes))) // Internet, no time to live
		response = append(response, bytes...)
	}
	binary.BigEndian.PutUint16(response[2:], 0x8180) // a response
	binary.BigEndian.PutUint16(response[6:], count)
	binary.BigEndian.PutUint32(response[8:], 0)
	return response
}
