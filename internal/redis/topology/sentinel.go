// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

const (
	// listenTimeout is how long a sentinel may be silent. eventsAtOnce is how many of its failover
	// events are acted on at once, and eventInterval how often one more is. The others wait.
	listenTimeout = time.Minute
	eventsAtOnce  = 20
	eventInterval = 500 * time.Millisecond
)

// naming is the master that a sentinel names. It is comparable.
type naming struct {
	// master is the address of the master, and epoch the number of the failover that made it one. A later failover has a
	// higher number.
	master string
	epoch  uint64
	// down means that enough sentinels agree that the master does not respond, so that a failover may be under way.
	down bool
}

// sentinels is a deployment with sentinels.
type sentinels struct{ auth.Endpoint }

// commands implements deployment. The address of the master is that of the new one as soon as a failover has made it a
// master, and the epoch changes at the same moment. If that is between the first two commands, the response has the new
// master with the old epoch, and never the old master with the new epoch.
func (s sentinels) commands() [][]any {
	name := s.Sentinels.Value().MasterName
	return [][]any{{"sentinel", "master", name}, {"sentinel", "get-master-addr-by-name", name}, {"sentinel", "sentinels", name}}
}

// parse implements deployment. A sentinel may refuse to report the other sentinels.
func (s sentinels) parse(replies []any, _ string) (reported response, err error) {
	for _, reply := range replies[:2] {
		if refusal, refused := reply.(resp.Error); refused {
			return response{}, refusalOf(refusal)
		}
	}
	const hostAndPort = 2
	parts, _ := replies[1].([]any)
	if len(parts) != hostAndPort {
		return response{}, masterNotFound()
	}
	is := &naming{}
	if is.master, err = joined(parts[0], parts[1]); err != nil {
		return response{}, err
	}
	text, _ := resp.Field(replies[0], "config-epoch").(string)
	if is.epoch, err = strconv.ParseUint(text, 10, 64); err != nil {
		return response{}, resp.ErrMalformed
	}
	is.down = isDown(replies[0], is.master)
	return response{named: is, others: othersIn(replies[2]), life: lifeBy(resp.Field(replies[0], "down-after-milliseconds"))}, nil
}

// isDown reports whether a reply to SENTINEL MASTER says that this master is down. From the moment at which a failover
// has made another server the master until all replicas follow it, the reply is about the old one.
func isDown(reply any, master string) bool {
	flags, _ := resp.Field(reply, "flags").(string)
	of, err := joined(resp.Field(reply, "ip"), resp.Field(reply, "port"))
	return (err != nil || of == master) && slices.Contains(strings.Split(flags, ","), "o_down")
}

// othersIn returns the sentinels in a reply.
func othersIn(reply any) (others []other) {
	listed, _ := reply.([]any)
	for _, each := range listed {
		address, err := joined(resp.Field(each, "ip"), resp.Field(each, "port"))
		if err != nil || len(others) == mostPolled {
			continue
		}
		id, _ := resp.Field(each, "runid").(string)
		if id == "" || len(id) > longestID {
			id = address
		}
		others = append(others, other{address, strings.Clone(id)})
	}
	return others
}

// lifeBy returns how long a response counts if a sentinel takes its master for down after so many milliseconds: another
// server may be the master soon after that.
func lifeBy(downAfter any) time.Duration {
	text, _ := downAfter.(string)
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number >= responseLife.Milliseconds() {
		return responseLife
	}
	return max(time.Duration(number)*time.Millisecond, leastLife)
}

// joined returns host:port in the form that [auth.ParseEndpoint] returns.
func joined(host, port any) (string, error) {
	name, _ := host.(string)
	var number string
	switch p := port.(type) {
	case string:
		number = p
	case int64:
		number = strconv.FormatInt(p, 10)
	}
	server, err := auth.ParseEndpoint(net.JoinHostPort(name, number))
	if err != nil {
		return "", resp.ErrMalformed
	}
	return server.Address, nil
}

// refusalOf returns the error for a command that a sentinel refused.
func refusalOf(refusal resp.Error) error {
	switch {
	case strings.HasPrefix(string(refusal), "ERR No such master"):
		return masterNotFound()
	case strings.HasPrefix(string(refusal), noPermission):
		return &failure.Error{
			Reason: failure.ReasonPermissionDenied,
			Message: "The user of spec.redis.sentinel.auth may not ask the sentinels for the master. Grant it +sentinel|get-master-addr-by-name, " +
				"+sentinel|master and +sentinel|sentinels on all sentinels.",
			Err: refusal,
		}
	}
	return refusal
}

func masterNotFound() error {
	return &failure.Error{
		Reason:  failure.ReasonMasterNotFound,
		Message: "The sentinels know no master with the name in spec.redis.sentinel.masterName. Correct the name.",
		Err:     errors.New("the sentinels know no such master"),
	}
}

// merge implements deployment. The sentinel that knows of the latest failover is right: this is how sentinels agree
// among themselves, too. If a sentinel has reported a later failover before, more than half of them must agree that
// there is none: the others may be on the wrong side of a network partition. No sentinel is right before the others
// have had the time to respond: it may be the one that does not know of the failover yet. A master that is down for the
// sentinels may respond to the operator, or respond again, while they make another server the master.
func (s sentinels) merge(reported []response, polled int, awaits bool, epoch uint64) *view {
	latest, votes, down := latestOf(reported)
	switch {
	case votes == 0, awaits:
		return nil
	case latest.epoch < epoch && !agreed(reported, latest, polled):
		return &view{err: failoverForgotten()}
	case down:
		return &view{err: masterDown(), epoch: latest.epoch}
	}
	return &view{masters: []auth.Endpoint{s.ServerAt(latest.master)}, epoch: latest.epoch}
}

// latestOf returns what the sentinels say that know of the latest failover, or most of them, how many they are, and
// whether one of them says that the master is down.
func latestOf(reported []response) (latest naming, votes int, down bool) {
	same := map[naming]int{}
	isDown := map[naming]bool{}
	for _, each := range reported {
		if each.named == nil {
			continue
		}
		is := *each.named
		is.down = false
		same[is]++
		isDown[is] = isDown[is] || each.named.down
		if len(same) == 1 || is.epoch > latest.epoch || is.epoch == latest.epoch && same[is] > same[latest] {
			latest = is
		}
	}
	return latest, same[latest], isDown[latest]
}

// agreed reports whether more than half of the sentinels name this master. Several addresses that the user has written
// may lead to one sentinel. So the addresses count that the sentinels have of each other, and only if there are none,
// all that are polled.
func agreed(reported []response, is naming, polled int) bool {
	known := map[string]bool{}
	for _, each := range reported {
		for _, its := range each.others {
			known[its.address] = true
		}
	}
	votes := 0
	for _, each := range reported {
		if each.named != nil && each.named.master == is.master && each.named.epoch == is.epoch && (len(known) == 0 || known[each.from]) {
			votes++
		}
	}
	if len(known) > 0 {
		polled = len(known)
	}
	return votes*2 > polled
}

func masterDown() *failure.Error {
	return unreachable("The sentinels say that the master is down. Wait for the failover; if there is none, see that a replica can take over.",
		"the sentinels say that the master is down")
}

func failoverForgotten() *failure.Error {
	return unreachable("The sentinels that answer do not know of a failover that another one knew of. Check that more than half of the sentinels run "+
		"and reach each other and the operator.",
		"the sentinels name a master of an earlier failover")
}

// explain implements deployment. The messages of connections are about the Redis server.
func (s sentinels) explain(cause *failure.Error) *failure.Error {
	about := *cause
	switch cause.Reason {
	case failure.ReasonWrongMode, failure.ReasonMasterNotFound, failure.ReasonTooManyServers:
	default:
		inSentinel := strings.NewReplacer("spec.redis.auth", "spec.redis.sentinel.auth", "spec.redis.tls", "spec.redis.sentinel.tls")
		about.Message = "No sentinel answers. About one of them: " + inSentinel.Replace(cause.Message)
	}
	return &about
}

// isMember implements deployment: a sentinel that is known knows others that are. Of two sentinels, each knows only the
// other.
func (s sentinels) isMember(reported response, known map[string]bool) bool {
	if len(reported.others) == 1 && len(known) == 1 {
		return true
	}
	return slices.ContainsFunc(reported.others, func(its other) bool { return known[its.id] })
}

// wanted implements deployment: the sentinels that the user names, those that respond, and those that they know. While
// none responds, it is all that were polled last.
func (s sentinels) wanted(responses map[string]response, _ []auth.Endpoint) []string {
	wanted := addresses(s.Addresses())
	known := slices.Sorted(maps.Keys(responses))
	some := slices.ContainsFunc(known, func(address string) bool { return responses[address].named != nil })
	for _, address := range known {
		if responses[address].named != nil || !some {
			wanted.add(address)
		}
	}
	for _, address := range known {
		for _, its := range responses[address].others {
			wanted.add(its.address)
		}
	}
	return wanted
}

// failoverChannels are the channels on which a sentinel publishes that there is a new master, or that the master is
// down.
var failoverChannels = []string{"+switch-master", "+odown"}

// listen polls all sentinels as soon as one publishes a failover event, until ctx is done. If a sentinel rejects the
// subscription, its next response shows the failover.
func (w *watcher) listen(ctx context.Context, conn *connection.Conn) {
	var backoff connection.Backoff
	for conn.WaitUp(ctx) == nil {
		backoff.Begin()
		began := time.Now()
		err := w.listenOnce(ctx, conn)
		if time.Since(began) > responseLife {
			backoff.Reset()
		}
		delay := backoff.Delay()
		if failure.IsReply(err) {
			delay = failure.RejectedRetry
		}
		if !pause(ctx, delay, nil) {
			return
		}
	}
}

// listenOnce listens on one connection until it ends, and on its successor if the credentials change.
func (w *watcher) listenOnce(ctx context.Context, conn *connection.Conn) error {
	wire, err := conn.OpenWire(ctx)
	for wire != nil {
		current := wire
		wire, err = conn.UseWire(ctx, current, func(ctx context.Context) error { return w.receiveEvents(ctx, current) })
	}
	return err
}

// receiveEvents receives the events of a sentinel until the connection or ctx ends, and returns why it ended.
func (w *watcher) receiveEvents(ctx context.Context, wire *connection.Wire) error {
	defer context.AfterFunc(ctx, wire.Close)()
	if err := wire.Send(append([]string{"subscribe"}, failoverChannels...)); err != nil {
		return err
	}
	// This is for the events of all masters that the sentinel monitors. Those of others may use it up; the sentinels are
	// polled every second anyway.
	pace := rate.NewLimiter(rate.Every(eventInterval), eventsAtOnce)
	for {
		message, err := wire.Receive(listenTimeout)
		switch refusal, refused := message.(resp.Error); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case refused:
			return wire.Refused(refusal)
		}
		if err := pace.Wait(ctx); err != nil {
			return context.Cause(ctx)
		}
		w.pollNow() // Also after the confirmation of the subscription: there may have been an event before.
	}
}
