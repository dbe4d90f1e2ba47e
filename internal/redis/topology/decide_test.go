// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"
	"unique"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

func names(master string, epoch uint64) answer {
	return answer{by: &naming{master: master, epoch: epoch}}
}

func down(said answer) answer {
	said.by.down = true
	return said
}

// What sentinels say that agree, disagree, know of no failover, or lie.
func TestTheLatestFailoverIsRight(t *testing.T) {
	t.Parallel()
	const a, b = "10.0.0.1:6379", "10.0.0.2:6379"
	const later = 7
	for name, c := range map[string]struct {
		said   []answer
		asked  int
		epoch  uint64
		master string // empty if no server is to be used
	}{
		"nobody has answered":                  {nil, 3, 0, ""},
		"all agree":                            {[]answer{names(a, 1), names(a, 1), names(a, 1)}, 3, 0, a},
		"one is enough":                        {[]answer{names(a, 1)}, 3, 0, a},
		"one knows of a failover":              {[]answer{names(a, 1), names(b, 2), names(a, 1)}, 3, 0, b},
		"the first one knows of it":            {[]answer{names(b, 2), names(a, 1), names(a, 1)}, 3, 0, b},
		"most of those that know as much":      {[]answer{names(a, 1), names(b, 1), names(b, 1)}, 3, 0, b},
		"one that was cut off":                 {[]answer{names(a, 6)}, 3, later, ""},
		"half of them are not enough":          {[]answer{names(a, 6), names(a, 6)}, 4, later, ""},
		"most know of no failover":             {[]answer{names(a, 0), names(a, 0)}, 3, later, a},
		"down for one":                         {[]answer{names(a, 1), down(names(a, 1))}, 3, 0, ""},
		"the old one is down":                  {[]answer{down(names(a, 1)), names(b, 2)}, 3, 0, b},
		"a sentinel that has another password": {[]answer{{err: &failure.Error{Reason: failure.ReasonAuthFailed}}, names(a, 1)}, 2, 0, a},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			e := auth.Endpoint{Mode: auth.ModeSentinel, Sentinels: unique.Make(auth.Sentinels{MasterName: "jobs"})}
			is := sentinels{e}.decide(c.said, c.asked, c.epoch)
			if c.master == "" {
				g.Expect(is == nil || is.err != nil && len(is.masters) == 0).To(BeTrue())
				return
			}
			g.Expect(is.err).To(BeNil())
			g.Expect(is.masters).To(Equal([]auth.Endpoint{e.ServerAt(c.master)}))
		})
	}
}

func TestRepliesOfSentinels(t *testing.T) {
	t.Parallel()
	address := []any{"10.0.0.1", "6379"}
	master := []any{"name", "jobs", "ip", "10.0.0.1", "port", "6379", "runid", "x", "flags", "master", "config-epoch", "12", "new-field", "1"}
	others := []any{[]any{"name", "y", "ip", "redis-1.example", "port", "26379"}, []any{"ip", "fd00::1", "port", "26379"}, []any{"ip", "", "port", "x"}}
	for name, c := range map[string]struct {
		replies []any
		is      *naming
		others  []string
		reason  failure.Reason
	}{
		"as expected": {
			[]any{address, master, others}, &naming{master: "10.0.0.1:6379", epoch: 12}, []string{"redis-1.example:26379", "[fd00::1]:26379"}, "",
		},
		"a host name": {[]any{[]any{"Redis-0.example", "6379"}, master, nil}, &naming{master: "redis-0.example:6379", epoch: 12}, nil, ""},
		"others denied": {
			[]any{address, master, resp.Error("NOPERM")}, &naming{master: "10.0.0.1:6379", epoch: 12}, nil, "",
		},
		"down": {
			[]any{address, []any{"flags", "s_down,o_down,master", "config-epoch", "1"}, nil}, &naming{master: "10.0.0.1:6379", epoch: 1, down: true}, nil, "",
		},
		"no such master":    {[]any{nil, resp.Error("ERR No such master with that name"), resp.Error("ERR No such master with that name")}, nil, nil, failure.ReasonMasterNotFound},
		"an unknown master": {[]any{nil, master, nil}, nil, nil, failure.ReasonMasterNotFound},
		"denied":            {[]any{resp.Error("NOPERM this user has no permissions"), master, nil}, nil, nil, failure.ReasonPermissionDenied},
		"no address":        {[]any{[]any{"", ""}, master, nil}, nil, nil, failure.ReasonUnreachable},
		"a port too many":   {[]any{[]any{"10.0.0.1", "65536"}, master, nil}, nil, nil, failure.ReasonUnreachable},
		"no epoch":          {[]any{address, []any{"flags", "master"}, nil}, nil, nil, failure.ReasonUnreachable},
		"other types":       {[]any{int64(1), int64(2), int64(3)}, nil, nil, failure.ReasonMasterNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			is, others, err := parseNaming(c.replies)
			g.Expect(is).To(Equal(c.is))
			g.Expect(others).To(Equal(c.others))
			if c.reason != "" {
				g.Expect(failure.Classify(err).Reason).To(Equal(c.reason))
			}
		})
	}
}

// CLUSTER SLOTS and CLUSTER NODES of several versions and services.
func TestRepliesOfNodes(t *testing.T) {
	t.Parallel()
	const asked = "seed.example:7000"
	node := func(parts ...any) []any { return parts }
	slots := func(first, last int64, master []any, replicas ...any) []any {
		return append([]any{first, last, master}, replicas...)
	}
	for name, c := range map[string]struct {
		slots any
		nodes any
		// owners has the address of the master of slots, importing that of the node to which they are moved.
		owners, importing map[uint16]string
	}{
		"Redis 6.2": {
			[]any{slots(0, 16383, node("10.0.0.1", int64(6379), "a"), node("10.0.0.2", int64(6379), "b"))},
			"a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-16383\nb 10.0.0.2:6379@16379 slave a 0 0 1 connected\n",
			map[uint16]string{0: "10.0.0.1:6379", 16383: "10.0.0.1:6379"},
			nil,
		},
		"Redis 7.0, host names, a slot on the move": {
			[]any{
				slots(0, 99, node("a.example", int64(6379), "a", []any{"ip", "10.0.0.1"})),
				slots(100, 16383, node("b.example", int64(6379), "b", []any{"ip", "10.0.0.2"})),
			},
			"a 10.0.0.1:6379@16379,a.example myself,master - 0 0 1 connected 0-99 [42->-b] [43-<-b]\n" +
				"b 10.0.0.2:6379@16379,b.example master - 0 0 2 connected 100-16383\n",
			map[uint16]string{42: "a.example:6379", 43: "a.example:6379", 100: "b.example:6379"},
			map[uint16]string{42: "b.example:6379"},
		},
		"Redis 7.2 and Valkey, more fields behind the name": {
			[]any{slots(0, 16383, node("10.0.0.1", int64(6379), "a", []any{}))},
			"a 10.0.0.1:6379@16379,,tls-port=0,shard-id=7 myself,master - 0 0 1 connected 0-16383 [5->-b]\n" +
				"b 10.0.0.2:6380@16379,,shard-id=8 master - 0 0 2 connected\n",
			map[uint16]string{5: "10.0.0.1:6379"},
			map[uint16]string{5: "10.0.0.2:6380"},
		},
		"a host that the node does not know": {
			[]any{slots(0, 16383, node(nil, int64(6379), "a"))},
			resp.Error("NOPERM"),
			map[uint16]string{1: "seed.example:6379"},
			nil,
		},
		"an empty host": {
			[]any{slots(0, 16383, node("", int64(6379), "a"))}, nil, map[uint16]string{1: "seed.example:6379"}, nil,
		},
		"a host name that is not announced": {
			[]any{slots(0, 16383, node("?", int64(6379), "a", []any{"ip", "10.0.0.1"}))},
			"a 10.0.0.1:6379@16379,? myself,master - 0 0 1 connected 0-16383\n",
			map[uint16]string{1: "10.0.0.1:6379"},
			nil,
		},
		"one virtual node of a service": {
			[]any{slots(0, 16383, node("cache.example", int64(6379), "v", []any{"ip", "127.0.0.1"}))},
			nil,
			map[uint16]string{1: "cache.example:6379"},
			nil,
		},
		"IPv6": {
			[]any{slots(0, 16383, node("fd00::1", int64(6379), "a"))},
			"a fd00::1:6379@16379 myself,master - 0 0 1 connected 0-16383\n",
			map[uint16]string{1: "[fd00::1]:6379"},
			nil,
		},
		"no slots":    {[]any{}, "", map[uint16]string{1: ""}, nil},
		"before IDs":  {[]any{slots(0, 16383, node("10.0.0.1", int64(6379)))}, "", map[uint16]string{1: "10.0.0.1:6379"}, nil},
		"odd lines":   {[]any{slots(0, 1, node("h", int64(1), "a"))}, "\n a b\nx y z [1->-2\n", map[uint16]string{1: "h:1"}, nil},
		"odd numbers": {[]any{slots(0, 1, node("h", int64(1), "a"))}, "a h:1@2 myself - 0 0 x c [99999->-a] [x->-a] []\n", map[uint16]string{1: "h:1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			said, err := parseNodes(c.slots, c.nodes, asked)
			g.Expect(err).NotTo(HaveOccurred())
			is := merge(auth.Endpoint{Mode: auth.ModeCluster}, []*nodes{said})
			owners := map[uint16]string{}
			for slot := range c.owners {
				owners[slot] = ""
				if at := is.owners[slot]; at > 0 {
					owners[slot] = is.masters[at-1].Address
				}
			}
			importing := map[uint16]string{}
			for slot, to := range is.importing {
				importing[slot] = to.Address
			}
			g.Expect(owners).To(Equal(c.owners))
			if c.importing == nil {
				c.importing = map[uint16]string{}
			}
			g.Expect(importing).To(Equal(c.importing))
		})
	}
	for name, reply := range map[string]any{
		"no list": "OK", "an element": []any{int64(1)}, "a short range": []any{[]any{int64(0), int64(1)}},
		"no master": []any{[]any{int64(0), int64(1), "x"}}, "a slot too many": []any{slots(0, 16384, node("h", int64(1), "a"))},
		"backwards": []any{slots(2, 1, node("h", int64(1), "a"))}, "below": []any{slots(-1, 1, node("h", int64(1), "a"))},
		"a bad host": []any{slots(0, 1, node("h\r\n", int64(1), "a"))}, "a bad port": []any{slots(0, 1, node("h", int64(0), "a"))},
	} {
		_, err := parseNodes(reply, "", asked)
		NewWithT(t).Expect(err).To(MatchError(resp.ErrMalformed), name)
	}
}

// Two nodes claim a slot: one that was cut off, and the one that has replaced it.
func TestTheNewerClaimOfASlotIsRight(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	claim := func(id string, epoch uint64) *nodes {
		return &nodes{
			ranges: []slotRange{{0, slots - 1, id}}, epochs: map[string]uint64{id: epoch}, addresses: map[string]string{id: id + ":1"},
		}
	}
	e := auth.Endpoint{Mode: auth.ModeCluster}
	for _, said := range [][]*nodes{{claim("old", 1), claim("new", 2)}, {claim("new", 2), claim("old", 1)}} {
		is := merge(e, said)
		g.Expect(is.masters[is.owners[0]-1]).To(Equal(e.ServerAt("new:1")))
	}
}

// A hostile node announces masters without end.
func TestMastersAreBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	said := &nodes{epochs: map[string]uint64{}, addresses: map[string]string{}}
	for i := range uint16(slots) {
		id := string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		said.addresses[id] = id + ".example:1"
		said.ranges = append(said.ranges, slotRange{i, i, id})
	}
	is := merge(auth.Endpoint{Mode: auth.ModeCluster}, []*nodes{said})
	g.Expect(is.masters).To(HaveLen(mostMasters))
}
