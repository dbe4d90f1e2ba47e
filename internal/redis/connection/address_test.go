// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

const (
	name = "redis.mail.svc:6379"
	rest = time.Minute
)

// dns returns its answers one after the other, and then repeats the last one.
type dns struct {
	answers [][]string
	err     error
	asked   string
}

func (d *dns) LookupHost(_ context.Context, host string) ([]string, error) {
	d.asked = host
	answer := d.answers[0]
	if len(d.answers) > 1 {
		d.answers = d.answers[1:]
	}
	return answer, d.err
}

// connection is a connection to a server at this address.
type connection struct {
	net.Conn
	remote string
}

func (c connection) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.remote))
}

// network connects to the servers in turn, whatever address is dialed, and records these addresses.
type network struct {
	servers []string
	dialed  []string
}

func (n *network) dial(_ context.Context, _, address string) (net.Conn, error) {
	n.dialed = append(n.dialed, address)
	if len(n.servers) == 0 {
		return nil, errors.New("refused")
	}
	conn := connection{remote: n.servers[0]}
	n.servers = append(n.servers[1:], n.servers[0])
	return conn, nil
}

// pinned returns a pin with this address in use.
func pinned(t *testing.T, address string) *pin {
	t.Helper()
	var pin pin
	servers := network{servers: []string{address}}
	_, err := pin.Dial(t.Context(), servers.dial, "tcp", name)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return &pin
}

func TestAllConnectionsLeadWhereTheFirstDoes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var pin pin
	servers := network{}
	_, err := pin.Dial(t.Context(), servers.dial, "tcp", name)
	g.Expect(err).To(HaveOccurred())
	g.Expect(pin.Address().IsValid()).To(BeFalse(), "after a dial that failed")

	servers.servers = []string{"[::ffff:10.0.0.1]:6379", "10.0.0.2:6379"}
	for range 3 {
		_, err := pin.Dial(t.Context(), servers.dial, "tcp", name)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(servers.dialed).To(Equal([]string{name, name, "10.0.0.1:6379", "10.0.0.1:6379"}))

	pin.Release()
	_, err = pin.Dial(t.Context(), servers.dial, "tcp", name)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(servers.dialed[4]).To(Equal(name))
}

func TestLookUpTellsAMove(t *testing.T) {
	t.Parallel()
	used, other, third := "10.0.0.1", "10.0.0.2", "10.0.0.3"
	for about, c := range map[string]struct {
		answers [][]string
		err     error
		moved   []bool
	}{
		"the address is there":         {answers: [][]string{{other, used}}, moved: []bool{false, false, false}},
		"it is missing, twice":         {answers: [][]string{{other}}, moved: []bool{false, true, false}},
		"it is missing, in any order":  {answers: [][]string{{other, third}, {third, other}}, moved: []bool{false, true}},
		"it is missing once":           {answers: [][]string{{other}, {used}, {other}, {used}}, moved: []bool{false, false, false, false}},
		"other addresses in rotation":  {answers: [][]string{{other}, {third}, {other}, {third}}, moved: []bool{false, false, false, false}},
		"there is no answer":           {answers: [][]string{{other}}, err: errors.New("no answer"), moved: []bool{false, false}},
		"the answer names no address":  {answers: [][]string{{}}, moved: []bool{false, false}},
		"the address is mapped to six": {answers: [][]string{{"::ffff:" + used}}, moved: []bool{false, false}},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			pin, answers := pinned(t, used+":6379"), &dns{answers: c.answers, err: c.err}
			for i, moved := range c.moved {
				g.Expect(pin.LookUp(t.Context(), answers, name, rest)).To(Equal(moved), "at look-up %d", i)
				g.Expect(answers.asked).To(Equal("redis.mail.svc"))
			}
		})
	}
}

func TestAMoveReleasesTheAddress(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pin, answers := pinned(t, "10.0.0.1:6379"), &dns{answers: [][]string{{"10.0.0.2"}}}
	pin.LookUp(t.Context(), answers, name, rest)
	g.Expect(pin.Address().IsValid()).To(BeTrue())
	pin.LookUp(t.Context(), answers, name, rest)
	g.Expect(pin.Address().IsValid()).To(BeFalse())
}

func TestOneMoveIsNotSoonFollowedByAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		pin, answers := pinned(t, "10.0.0.1:6379"), &dns{answers: [][]string{{"10.0.0.2"}}}
		lookUp := func() bool { return pin.LookUp(t.Context(), answers, name, rest) }
		lookUp()
		g.Expect(lookUp()).To(BeTrue())

		back := network{servers: []string{"10.0.0.1:6379"}}
		_, err := pin.Dial(t.Context(), back.dial, "tcp", name)
		g.Expect(err).NotTo(HaveOccurred())
		lookUp()
		time.Sleep(rest - time.Nanosecond)
		g.Expect(lookUp()).To(BeFalse())
		time.Sleep(time.Nanosecond)
		g.Expect(lookUp()).To(BeTrue())
	})
}
