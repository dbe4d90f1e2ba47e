// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unique"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

func names(master string, epoch uint64) response {
	return response{named: &naming{master: master, epoch: epoch}}
}

func down(said response) response {
	said.named.down = true
	return said
}

// from is what the sentinel at an address says that knows some others.
func from(address string, said response, others ...string) response {
	said.from = address
	for _, each := range others {
		said.others = append(said.others, other{each, each})
	}
	return said
}

// What sentinels say that agree, disagree, know of no failover, or lie.
func TestTheLatestFailoverIsRight(t *testing.T) {
	t.Parallel()
	const a, b = "10.0.0.1:6379", "10.0.0.2:6379"
	const later = 7
	for name, c := range map[string]struct {
		said   []response
		asked  int
		epoch  uint64
		master string // empty if no server is to be used
	}{
		"nobody has answered":                  {nil, 3, 0, ""},
		"all agree":                            {[]response{names(a, 1), names(a, 1), names(a, 1)}, 3, 0, a},
		"one is enough":                        {[]response{names(a, 1)}, 3, 0, a},
		"one knows of a failover":              {[]response{names(a, 1), names(b, 2), names(a, 1)}, 3, 0, b},
		"the first one knows of it":            {[]response{names(b, 2), names(a, 1), names(a, 1)}, 3, 0, b},
		"most of those that know as much":      {[]response{names(a, 1), names(b, 1), names(b, 1)}, 3, 0, b},
		"one that was cut off":                 {[]response{names(a, 6)}, 3, later, ""},
		"half of them are not enough":          {[]response{names(a, 6), names(a, 6)}, 4, later, ""},
		"most know of no failover":             {[]response{names(a, 0), names(a, 0)}, 3, later, a},
		"down for one":                         {[]response{names(a, 1), down(names(a, 1))}, 3, 0, ""},
		"the old one is down":                  {[]response{down(names(a, 1)), names(b, 2)}, 3, 0, b},
		"a sentinel that has another password": {[]response{{err: &failure.Error{Reason: failure.ReasonAuthFailed}}, names(a, 1)}, 2, 0, a},
		"one that has three addresses": {
			[]response{from("seed:1", names(a, 6)), from("other:1", names(a, 6)), from("s1:1", names(a, 6), "s2:1", "s3:1")}, 5, later, "",
		},
		"most of those that know each other": {
			[]response{from("s1:1", names(a, 6), "s2:1", "s3:1"), from("s2:1", names(a, 6), "s1:1", "s3:1")}, 5, later, a,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			e := auth.Endpoint{Mode: auth.ModeSentinel, Sentinels: unique.Make(auth.Sentinels{MasterName: "jobs"})}
			g.Expect(sentinels{e}.merge(c.said, c.asked, true, c.epoch)).To(BeNil(), "while others may know better")
			is := sentinels{e}.merge(c.said, c.asked, false, c.epoch)
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
	others := []any{[]any{"name", "y", "ip", "redis-1.example", "port", "26379", "runid", "8f"}, []any{"ip", "fd00::1", "port", "26379"}, []any{"ip", "", "port", "x"}}
	for name, c := range map[string]struct {
		replies []any
		is      *naming
		others  []other
		reason  failure.Reason
	}{
		"as expected": {
			[]any{master, address, others},
			&naming{master: "10.0.0.1:6379", epoch: 12},
			[]other{{"redis-1.example:26379", "8f"}, {"[fd00::1]:26379", "[fd00::1]:26379"}},
			"",
		},
		"a host name": {[]any{master, []any{"Redis-0.example", "6379"}, nil}, &naming{master: "redis-0.example:6379", epoch: 12}, nil, ""},
		"others denied": {
			[]any{master, address, resp.Error("NOPERM")}, &naming{master: "10.0.0.1:6379", epoch: 12}, nil, "",
		},
		"down": {
			[]any{[]any{"flags", "s_down,o_down,master", "config-epoch", "1"}, address, nil}, &naming{master: "10.0.0.1:6379", epoch: 1, down: true}, nil, "",
		},
		"the master before is down": {
			[]any{[]any{"ip", "10.0.0.9", "port", "6379", "flags", "o_down,master", "config-epoch", "2"}, address, nil},
			&naming{master: "10.0.0.1:6379", epoch: 2}, nil, "",
		},
		"no such master":    {[]any{resp.Error("ERR No such master with that name"), nil, resp.Error("ERR No such master with that name")}, nil, nil, failure.ReasonMasterNotFound},
		"an unknown master": {[]any{master, nil, nil}, nil, nil, failure.ReasonMasterNotFound},
		"denied":            {[]any{master, resp.Error("NOPERM this user has no permissions"), nil}, nil, nil, failure.ReasonPermissionDenied},
		"its state denied":  {[]any{resp.Error("NOPERM this user has no permissions"), address, nil}, nil, nil, failure.ReasonPermissionDenied},
		"no address":        {[]any{master, []any{"", ""}, nil}, nil, nil, failure.ReasonUnreachable},
		"a port too many":   {[]any{master, []any{"10.0.0.1", "65536"}, nil}, nil, nil, failure.ReasonUnreachable},
		"no epoch":          {[]any{[]any{"flags", "master"}, address, nil}, nil, nil, failure.ReasonUnreachable},
		"other types":       {[]any{int64(1), int64(2), int64(3)}, nil, nil, failure.ReasonMasterNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			said, err := sentinels{}.parse(c.replies, "")
			g.Expect(said.named).To(Equal(c.is))
			g.Expect(said.others).To(Equal(c.others))
			if c.reason != "" {
				g.Expect(failure.Classify(err).Reason).To(Equal(c.reason))
			}
		})
	}
}

// A sentinel that may make another server the master soon is believed for a shorter time.
func TestHowLongSentinelsAreBelieved(t *testing.T) {
	t.Parallel()
	for downAfter, life := range map[any]time.Duration{
		"30000": responseLife, "5000": responseLife, "4000": 4 * time.Second, "1": leastLife, "-7": leastLife,
		"": responseLife, "soon": responseLife, nil: responseLife, "9223372036854775807": responseLife,
	} {
		NewWithT(t).Expect(lifeBy(downAfter)).To(Equal(life), "%v", downAfter)
	}
}

// A sentinel that is gone is asked for as long as others know it. Those that are gone together do not keep each other.
func TestWhichSentinelsAreAsked(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := sentinels{auth.Endpoint{Mode: auth.ModeSentinel, Address: "seed:1"}}
	wanted := func(said map[string]response) []string { return s.wanted(said, nil) }
	g.Expect(wanted(map[string]response{
		"seed:1": from("seed:1", names("m:1", 1), "s1:1", "gone:1"),
		"s1:1":   from("s1:1", names("m:1", 1), "s2:1"),
	})).To(ConsistOf("seed:1", "s1:1", "gone:1", "s2:1"))
	g.Expect(wanted(map[string]response{
		"seed:1": {}, "s1:1": from("s1:1", names("m:1", 1)), "gone:1": {},
	})).To(ConsistOf("seed:1", "s1:1"), "nobody knows the one that answers")
	g.Expect(wanted(map[string]response{"seed:1": {}, "s1:1": {}})).To(ConsistOf("seed:1", "s1:1"), "nobody answers")
	many := make([]any, 2*mostPolled)
	for i := range many {
		many[i] = []any{"ip", fmt.Sprintf("10.0.0.%d", i), "port", "26379"}
	}
	g.Expect(othersIn(many)).To(HaveLen(mostPolled))
}

// An address may by now be that of a server of another deployment.
func TestServersOfOtherDeploymentsAreNotBelieved(t *testing.T) {
	t.Parallel()
	const sentinel, cluster = auth.ModeSentinel, auth.ModeCluster
	node := func(address, self string, masters ...string) response {
		return response{from: address, nodes: &nodes{self: self, masters: masters}}
	}
	says := func(address string, others ...string) response { return from(address, names("m:1", 1), others...) }
	for name, c := range map[string]struct {
		mode     auth.Mode
		said     []response
		before   string
		believed string
	}{
		"they know each other":      {sentinel, []response{says("seed:1", "a", "b"), says("a:1", "seed", "b"), says("b:1", "seed", "a")}, "", "seed:1 a:1 b:1"},
		"of another deployment":     {sentinel, []response{says("seed:1", "a", "b"), says("a:1", "x", "y")}, "", "seed:1"},
		"one that knows nobody":     {sentinel, []response{says("seed:1", "a", "b"), says("a:1")}, "", "seed:1"},
		"two":                       {sentinel, []response{says("seed:1", "a"), says("a:1", "seed")}, "", "seed:1 a:1"},
		"known before":              {sentinel, []response{says("a:1", "seed", "b"), says("x:1", "y", "z")}, "seed a b", "a:1"},
		"a fresh one":               {sentinel, []response{says("seed:1"), says("a:1", "seed", "b"), says("b:1", "seed", "a")}, "seed a b", "seed:1 a:1 b:1"},
		"a fresh one and a dead":    {sentinel, []response{says("seed:1", "a"), says("a:1", "old", "seed", "b")}, "old a b", "seed:1 a:1"},
		"a sentinel was reset":      {sentinel, []response{says("seed:1", "a", "b"), says("a:1", "seed")}, "seed a b", "seed:1 a:1"},
		"a Service leads elsewhere": {sentinel, []response{says("seed:1", "x", "y"), says("a:1", "seed", "b")}, "seed a b", "seed:1"},
		"nodes": {
			cluster, []response{node("c:1", "c", "a", "b", "c"), node("a:1", "a", "a", "b", "c"), node("seed:1", "replica", "a", "b")}, "", "seed:1 a:1 c:1",
		},
		"a node of another Cluster":          {cluster, []response{node("a:1", "x", "x", "y"), node("seed:1", "seed", "seed", "a")}, "", "seed:1"},
		"nodes without IDs":                  {cluster, []response{node("seed:1", "seed:1", "seed:1", "a:1"), node("a:1", "", "a:1")}, "", "seed:1 a:1"},
		"nodes known before":                 {cluster, []response{node("a:1", "a", "a", "b"), node("b:1", "b", "b")}, "a", "a:1 b:1"},
		"an empty node":                      {cluster, []response{node("seed:1", "empty"), node("a:1", "a", "a")}, "a", "seed:1 a:1"},
		"a Service leads to another Cluster": {cluster, []response{node("seed:1", "x", "x"), node("a:1", "a", "a")}, "a", "seed:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newIdleWatcher(c.mode, "seed:1")
			f.peers = map[string]bool{}
			for id := range strings.FieldsSeq(c.before) {
				f.peers[id] = true
			}
			var believed []string
			for _, each := range f.members(c.said) {
				believed = append(believed, each.from)
			}
			NewWithT(t).Expect(believed).To(ConsistOf(strings.Fields(c.believed)))
			NewWithT(t).Expect(f.nonMembers).To(HaveLen(len(c.said) - len(believed)))
		})
	}
}

// The Service that the user names leads to a sentinel that has just started. It knows nobody, and no failover.
func TestAFreshSentinelDoesNotLeadBackToTheOldMaster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	f := newIdleWatcher(auth.ModeSentinel, "seed:1")
	say := func(all ...response) {
		for _, each := range all {
			respond(f, each)
		}
		g.Expect(f.wanted(f.memberResponses(), nil)).To(ConsistOf("seed:1", "a:1", "b:1"))
	}
	say(from("seed:1", names("new:1", 5), "a:1", "b:1"), from("a:1", names("new:1", 5), "seed:1", "b:1"), from("b:1", names("new:1", 5), "seed:1", "a:1"))
	g.Expect(f.route("emails")).To(HaveField("Owner.Address", "new:1"))
	for range 3 {
		say(from("seed:1", names("old:1", 0)))
		g.Expect(f.route("emails")).To(HaveField("Owner.Address", "new:1"))
	}
}

// Sentinels are remembered that were met while there was no master, and also if the one that the user names has started
// again, and knows nobody.
func TestSentinelsAreRememberedWhileTheOneThatIsNamedIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ first, later []response }{
		"met while the master was down": {first: []response{
			down(from("seed:1", names("old:1", 1), "a:1", "b:1")),
			down(from("a:1", names("old:1", 1), "seed:1", "b:1")), down(from("b:1", names("old:1", 1), "seed:1", "a:1")),
		}, later: []response{from("seed:1", response{err: failure.Classify(context.DeadlineExceeded)})}},
		"the named one knows nobody now": {first: []response{
			from("seed:1", names("old:1", 0), "a:1", "b:1"),
			from("a:1", names("old:1", 0), "seed:1", "b:1"), from("b:1", names("old:1", 0), "seed:1", "a:1"),
		}, later: []response{from("seed:1", names("old:1", 0))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			f := newIdleWatcher(auth.ModeSentinel, "seed:1")
			now := time.Now()
			for _, each := range c.first {
				respondAt(f, now, each)
			}
			later := now.Add(responseLife) // All answers are old by then.
			f.process(later)
			for _, each := range append(c.later, from("a:1", names("new:1", 2), "seed:1", "b:1"), from("b:1", names("new:1", 2), "seed:1", "a:1")) {
				respondAt(f, later, each)
			}
			g.Expect(f.wanted(f.memberResponses(), nil)).To(ConsistOf("seed:1", "a:1", "b:1"))
			g.Expect(f.route("emails")).To(HaveField("Owner.Address", "new:1"))
		})
	}
}

// After the process was stopped for a while, or the machine was suspended, nothing is known until a server has
// answered.
func TestAnswersThatHaveBecomeOldAreNotUsed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	f := newIdleWatcher(auth.ModeSentinel, "s1:1")
	now := time.Now()
	said := from("s1:1", names("m:1", 1))
	said.life = leastLife
	respondAt(f, now, said)
	g.Expect(f.route("emails")).Error().NotTo(HaveOccurred())
	version := f.version()
	f.process(now.Add(leastLife - 1))
	g.Expect(f.version()).To(Equal(version))
	f.process(now.Add(leastLife))
	g.Expect(isBusy(f)).To(BeTrue())
	respondAt(f, now.Add(leastLife), said)
	g.Expect(f.route("emails")).Error().NotTo(HaveOccurred())
	g.Expect(f.version()).To(BeEquivalentTo(version+2), "what was not known meanwhile is looked for again")
	g.Expect(since(now.Add(-time.Second), now)).To(Equal(time.Second))
	g.Expect(since(now.Add(-time.Hour).Round(0), now)).To(BeNumerically("~", time.Hour, time.Second), "by the wall clock")
}

// respond records and processes a response of now.
func respond(f *watcher, each response) { respondAt(f, time.Now(), each) }

func respondAt(f *watcher, at time.Time, each response) {
	each.sentAt, each.triedAt = at, at
	if f.pollers[each.from] == nil {
		f.pollers[each.from] = &poller{stop: func() {}}
	}
	f.record(each.from, f.pollers[each.from], each)
	f.process(at)
}

// isBusy reports whether it is not known yet where a key is.
func isBusy(f *watcher) bool {
	_, err := f.route("emails")
	return failure.Classify(err).Busy()
}

// One sentinel does not know of the failover yet, and responds first, when the operator starts or after it was stopped.
// The other one then responds, or does not.
func TestOneSentinelIsNotRightBeforeTheOthersHaveResponded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stopped bool
		last    response
		master  string
	}{
		"at the start":            {false, names("new:1", 2), "new:1"},
		"after a stop":            {true, names("new:1", 2), "new:1"},
		"the last one is gone":    {true, response{err: failure.Classify(context.DeadlineExceeded)}, "old:1"},
		"the operator is busy":    {true, response{err: failure.Classify(failure.ErrBusy)}, ""},
		"the last one is stopped": {false, response{err: failure.Classify(context.DeadlineExceeded)}, "old:1"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(_ *testing.T, g Gomega) {
				f := newIdleWatcher(auth.ModeSentinel, "s1:1")
				if c.stopped {
					respond(f, from("s1:1", names("old:1", 1), "s2:1"))
					respond(f, from("s2:1", names("old:1", 1), "s1:1"))
					g.Expect(f.route("emails")).To(HaveField("Owner.Address", "old:1"))
					time.Sleep(responseLife)
				}
				respond(f, from("s1:1", names("old:1", 1), "s2:1"))
				g.Expect(isBusy(f)).To(BeTrue())
				respond(f, from("s2:1", c.last, "s1:1"))
				g.Expect(isBusy(f)).To(Equal(c.master == ""))
				is, _ := f.route("emails")
				g.Expect(is.Owner.Address).To(Equal(c.master))
			})
		})
	}
}

// A server that cannot be polled does not hold up the first view for long.
func TestTheFirstViewWaitsForAServerOnlySoLong(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		f := newIdleWatcher(auth.ModeSentinel, "s1:1")
		for began := time.Now(); time.Since(began) < beginTimeout; time.Sleep(pollInterval) {
			g.Expect(isBusy(f)).To(BeTrue())
			respond(f, from("s1:1", names("m:1", 1), "s2:1"))
		}
		f.process(time.Now())
		g.Expect(f.route("emails")).To(HaveField("Owner.Address", "m:1"))
	})
}

// A read may come before anything else when the process goes on, and the master may have been replaced meanwhile.
func TestNothingIsKnownBeforeOldAnswersWereLookedFor(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		f := newIdleWatcher(auth.ModeSentinel, "s1:1")
		respond(f, from("s1:1", names("m:1", 1)))
		time.Sleep(checkTimeout - time.Millisecond)
		g.Expect(f.route("emails")).Error().NotTo(HaveOccurred())
		time.Sleep(time.Millisecond)
		g.Expect(isBusy(f)).To(BeTrue())
		f.process(time.Now())
		g.Expect(f.route("emails")).Error().NotTo(HaveOccurred())

		time.Sleep(responseLife)
		published := false
		f.moved = func(next *view) { // A read comes while the check publishes that the responses are old.
			published = true
			g.Expect(isBusy(f)).To(BeTrue())
			f.adopt(next)
		}
		f.process(time.Now())
		g.Expect(published).To(BeTrue())
	})
}

// CLUSTER SLOTS and CLUSTER NODES of several versions and services.
func TestRepliesOfNodes(t *testing.T) {
	t.Parallel()
	const asked = "seed.example:7000"
	node := func(parts ...any) []any { return parts }
	slots := func(first, last int64, master []any, replicas ...any) []any {
		return append([]any{first, last, master}, replicas...)
	}
	// all has one master for all slots.
	all := func(master ...any) []any { return []any{slots(0, 16383, master)} }
	for name, c := range map[string]struct {
		slots any
		nodes any
		// owners has the address of the master of slots, importing that of the node to which they are moved.
		owners, importing map[uint16]string
	}{
		"Redis 6.2": {
			slots:  []any{slots(0, 16383, node("10.0.0.1", int64(6379), "a"), node("10.0.0.2", int64(6379), "b"))},
			nodes:  "a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-16383\nb 10.0.0.2:6379@16379 slave a 0 0 1 connected\n",
			owners: map[uint16]string{0: "10.0.0.1:6379", 16383: "10.0.0.1:6379"},
		},
		"Redis 7.0, host names, a slot on the move": {
			slots: []any{
				slots(0, 99, node("a.example", int64(6379), "a", []any{"ip", "10.0.0.1"})),
				slots(100, 16383, node("b.example", int64(6379), "b", []any{"ip", "10.0.0.2"})),
			},
			nodes: "a 10.0.0.1:6379@16379,a.example myself,master - 0 0 1 connected 0-99 [42->-b] [43-<-b]\n" +
				"b 10.0.0.2:6379@16379,b.example master - 0 0 2 connected 100-16383\n",
			owners:    map[uint16]string{42: "a.example:6379", 43: "a.example:6379", 100: "b.example:6379"},
			importing: map[uint16]string{42: "b.example:6379"},
		},
		"a node without an address": {
			slots:  []any{slots(0, 99, node("10.0.0.1", int64(6379), "a")), slots(100, 16383, node("", int64(0), "b"))},
			nodes:  "a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-99\nb :0@0 master,noaddr - 0 0 2 disconnected 100-16383\n",
			owners: map[uint16]string{0: "10.0.0.1:6379", 100: ""},
		},
		"a move by a former owner": {
			slots: all("10.0.0.2", int64(6379), "b"),
			nodes: "a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected [5->-c]\nb 10.0.0.2:6379@16379 master - 0 0 2 connected 0-16383\n" +
				"c 10.0.0.3:6379@16379 master - 0 0 3 connected\n",
			owners: map[uint16]string{5: "10.0.0.2:6379"},
		},
		"Redis 7.2 and Valkey, more fields behind the name": {
			slots: all("10.0.0.1", int64(6379), "a", []any{}),
			nodes: "a 10.0.0.1:6379@16379,,tls-port=0,shard-id=7 myself,master - 0 0 1 connected 0-16383 [5->-b]\n" +
				"b 10.0.0.2:6380@16379,,shard-id=8 master - 0 0 2 connected\n",
			owners:    map[uint16]string{5: "10.0.0.1:6379"},
			importing: map[uint16]string{5: "10.0.0.2:6380"},
		},
		"a host that the node does not know": {
			slots: all(nil, int64(6379), "a"), nodes: resp.Error("NOPERM"), owners: map[uint16]string{1: "seed.example:6379"},
		},
		"an empty host": {slots: all("", int64(6379), "a"), owners: map[uint16]string{1: "seed.example:6379"}},
		"a host name that is not announced": {
			slots:  all("?", int64(6379), "a", []any{"ip", "10.0.0.1"}),
			nodes:  "a 10.0.0.1:6379@16379,? myself,master - 0 0 1 connected 0-16383\n",
			owners: map[uint16]string{1: "10.0.0.1:6379"},
		},
		"one virtual node of a service": {
			slots: all("cache.example", int64(6379), "v", []any{"ip", "127.0.0.1"}), owners: map[uint16]string{1: "cache.example:6379"},
		},
		"IPv6": {
			slots:  all("fd00::1", int64(6379), "a"),
			nodes:  "a fd00::1:6379@16379 myself,master - 0 0 1 connected 0-16383\n",
			owners: map[uint16]string{1: "[fd00::1]:6379"},
		},
		"no slots":   {slots: []any{}, nodes: "", owners: map[uint16]string{1: ""}},
		"before IDs": {slots: all("10.0.0.1", int64(6379)), nodes: "", owners: map[uint16]string{1: "10.0.0.1:6379"}},
		"odd lines": {
			slots: []any{slots(0, 1, node("h", int64(1), "a"))}, nodes: "\n a b\nx y z [1->-2\n", owners: map[uint16]string{1: "h:1"},
		},
		"odd numbers": {
			slots:  []any{slots(0, 1, node("h", int64(1), "a"))},
			nodes:  "a h:1@2 myself - 0 0 x c [99999->-a] [x->-a] []\n",
			owners: map[uint16]string{1: "h:1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			said := must.Get(parseNodes(c.slots, c.nodes, asked))(g)
			is := mergeNodes(auth.Endpoint{Mode: auth.ModeCluster}, []*nodes{said})
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
		"no first slot": []any{[]any{nil, int64(1), node("h", int64(1), "a")}}, "no last slot": []any{[]any{int64(0), "1", node("h", int64(1), "a")}},
		"a bad host": []any{slots(0, 1, node("h\r\n", int64(1), "a"))}, "a bad port": []any{slots(0, 1, node("h", int64(-1), "a"))},
	} {
		NewWithT(t).Expect(parseNodes(reply, "", asked)).Error().To(MatchError(resp.ErrMalformed), name)
	}
}

// Without CLUSTER NODES, the operator would not know that a slot is being moved. Some services do not have that
// command.
func TestRefusalsOfNodes(t *testing.T) {
	t.Parallel()
	denied, unknown := resp.Error("NOPERM this user has no permissions"), resp.Error("ERR unknown subcommand")
	ranges := []any{[]any{int64(0), int64(slots - 1), []any{"10.0.0.1", int64(6379), "a"}}}
	for name, c := range map[string]struct {
		slots, nodes any
		reason       failure.Reason
	}{
		"the slots are denied": {denied, "", failure.ReasonPermissionDenied},
		"the nodes are denied": {ranges, denied, failure.ReasonPermissionDenied},
		"no nodes":             {ranges, unknown, ""},
		"no slots":             {[]any{}, "", failure.ReasonUnreachable},
	} {
		g := NewWithT(t)
		said, err := cluster{}.parse([]any{c.slots, c.nodes}, "a:1")
		if err == nil {
			if is := (cluster{}).merge([]response{said}, 1, false, 0); is.err != nil {
				err = is.err
			}
		}
		if c.reason == "" {
			g.Expect(err).NotTo(HaveOccurred(), name)
		} else {
			g.Expect(failure.Classify(err).Reason).To(Equal(c.reason), name)
		}
	}
}

// Two nodes claim a slot: one that was cut off, and the one that has replaced it.
func TestTheNewerClaimOfASlotIsRight(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	claim := func(id string, epoch uint64) *nodes {
		return &nodes{
			masters: []string{id}, ranges: []slotRange{{0, slots - 1, 0}}, epochs: map[string]uint64{id: epoch},
			addresses: map[string]string{id: id + ":1"},
		}
	}
	e := auth.Endpoint{Mode: auth.ModeCluster}
	for _, said := range [][]*nodes{{claim("old", 1), claim("new", 2)}, {claim("new", 2), claim("old", 1)}} {
		is := mergeNodes(e, said)
		g.Expect(is.masters[is.owners[0]-1]).To(Equal(e.ServerAt("new:1")))
	}
}

// The address of a master is now that of a node of another Cluster. The other nodes do not know that yet.
func TestANodeOfAnotherClusterHasNoSlots(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	own := &nodes{
		self: "a", masters: []string{"a", "b"}, ranges: []slotRange{{0, 99, 0}, {100, slots - 1, 1}}, epochs: map[string]uint64{},
		addresses: map[string]string{"a": "seed:1", "b": "b:1"},
	}
	other := &nodes{
		self: "x", masters: []string{"x"}, ranges: []slotRange{{100, slots - 1, 0}}, epochs: map[string]uint64{}, addresses: map[string]string{"x": "b:1"},
	}
	same := *own
	same.self = "b"
	for name, c := range map[string]struct {
		second *nodes
		owner  uint16
	}{"another Cluster": {other, 0}, "the same": {&same, 1}} {
		f := newIdleWatcher(auth.ModeCluster, "seed:1")
		f.lastUsed["b:1"] = time.Now()
		f.responses["seed:1"] = response{from: "seed:1", sentAt: time.Now(), nodes: own}
		f.responses["b:1"] = response{from: "b:1", sentAt: time.Now(), nodes: c.second}
		f.process(time.Now())
		is := f.known.Load()
		g.Expect(is.err).To(BeNil(), name)
		g.Expect(is.owners[0]).To(Equal(uint16(2)), name)
		g.Expect(is.owners[100]).To(Equal(c.owner), name)
	}
}

// A node has got another address. A node that is cut off does not know that yet.
func TestANodeKnowsItsOwnAddressBest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	claim := func(self, address string) *nodes {
		return &nodes{
			self: self, masters: []string{"moved"}, ranges: []slotRange{{0, slots - 1, 0}}, epochs: map[string]uint64{"moved": 3},
			addresses: map[string]string{"moved": address},
		}
	}
	e := auth.Endpoint{Mode: auth.ModeCluster}
	is := mergeNodes(e, []*nodes{claim("cut-off", "old:1"), claim("moved", "new:1"), claim("other", "old:1")})
	g.Expect(is.masters[is.owners[0]-1]).To(Equal(e.ServerAt("new:1")))
}

// A hostile node names nodes, and moves slots, without end.
func TestWhatANodeSaysIsBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var text strings.Builder
	text.WriteString("a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-16383")
	for slot := range slots {
		fmt.Fprintf(&text, " [%d->-n%d]", slot, slot)
	}
	for i := range slots {
		fmt.Fprintf(&text, "\nn%d n%d.example:1@2 master - 0 0 1 connected", i, i)
	}
	said, err := parseNodes([]any{[]any{int64(0), int64(slots - 1), []any{"10.0.0.1", int64(6379), "a"}}}, text.String(), "a:1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(said.moves).To(HaveLen(mostMoves))
	g.Expect(said.addresses).To(HaveLen(mostMoves + 1))
	g.Expect(said.epochs).To(HaveLen(1))
	is := mergeNodes(auth.Endpoint{Mode: auth.ModeCluster}, []*nodes{said})
	g.Expect(is.importing).To(HaveLen(mostMasters))
	g.Expect(is.servers()).To(HaveLen(mostMasters + 1))
}

// A hostile node announces masters without end.
func TestMastersAreBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	said := &nodes{epochs: map[string]uint64{}, addresses: map[string]string{}}
	for i := range uint16(slots) {
		id := string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		said.addresses[id] = id + ".example:1"
		said.masters, said.ranges = append(said.masters, id), append(said.ranges, slotRange{i, i, i})
	}
	is := mergeNodes(auth.Endpoint{Mode: auth.ModeCluster}, []*nodes{said})
	g.Expect(is.masters).To(HaveLen(mostMasters))
}
