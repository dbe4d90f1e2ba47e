// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// mostAsked is how many servers of a deployment are asked where keys are, and mostMasters how many masters it may
	// have. listenTimeout is how long a sentinel may be silent.
	mostAsked     = 64
	mostMasters   = 256
	listenTimeout = time.Minute
	// newsAtOnce is how many messages of a sentinel are followed at once, and newsInterval how often there may be one more. The
	// others wait.
	newsAtOnce   = 20
	newsInterval = 500 * time.Millisecond
	// answerLife is how long an answer counts. A master that no sentinel has named for so long is not used: there may be
	// a new one by now. It is longer than the timeout of a question and the time until the next. The answer of a sentinel
	// that may make another server the master sooner counts for less, but at least for leastLife.
	answerLife = 5 * time.Second
	leastLife  = 3 * askInterval
	// lookTimeout is how long nobody may have looked for old answers, as while the process was stopped. Then nothing is known.
	lookTimeout = 2 * askInterval
	// refreshTimeout bounds how long a worker waits for the answer to where a key has moved.
	refreshTimeout = 250 * time.Millisecond
	// mostNewAddresses is how many addresses may be new at once, and newAddressInterval how often there may be one more. An
	// address that was not named for forgetAddress is new again.
	mostNewAddresses   = mostAsked + mostMasters
	newAddressInterval = time.Second
	forgetAddress      = 10 * time.Minute
)

// deployment is what differs between a deployment with sentinels and a Cluster.
type deployment interface {
	// server returns the endpoint of a server to ask.
	server(address string) auth.Endpoint
	// ask asks a server.
	ask(ctx context.Context, conn *connection.Conn) (answer, error)
	// decide returns what follows from what was said, by servers of which so many are asked; nil if nothing does. epoch is
	// that of the latest failover that any of them knew of.
	decide(said []answer, asked int, epoch uint64) *view
	// explain returns why nothing is known, by the error of one of the servers.
	explain(cause *failure.Error) *failure.Error
	// belongs reports whether a server is one of those that the deployment is known to have.
	belongs(said answer, known map[string]bool) bool
	// wanted returns the addresses of the servers to ask. answers are by address, and masters are those that were known
	// last.
	wanted(answers map[string]answer, masters []auth.Endpoint) []string
}

// addresses are those of servers to ask, each once.
type addresses []string

func (a *addresses) add(address string) {
	if len(*a) < mostAsked && !slices.Contains(*a, address) {
		*a = append(*a, address)
	}
}

// view is what is known about a deployment. It does not change.
type view struct {
	// err is why nothing is known; nil if something is.
	err *failure.Error
	// masters are the masters, in the order of their addresses. A deployment with sentinels has one, and epoch is the number
	// of the failover that made it one.
	masters []auth.Endpoint
	epoch   uint64
	// owners has, for each slot of a Cluster, the index of its master plus 1; 0 if there is none. It is nil with
	// sentinels.
	owners []uint16
	// importing has the servers to which slots are being moved.
	importing map[uint16]auth.Endpoint
}

// servers returns all servers of the view.
func (v *view) servers() []auth.Endpoint {
	return slices.AppendSeq(slices.Clone(v.masters), maps.Values(v.importing))
}

// same reports whether keys are at the same places.
func (v *view) same(as *view) bool {
	return (v.err == nil) == (as.err == nil) && slices.Equal(v.masters, as.masters) && slices.Equal(v.owners, as.owners) &&
		maps.Equal(v.importing, as.importing)
}

// follower follows one deployment.
type follower struct {
	deployment
	endpoint auth.Endpoint
	pool     *connection.Pool
	log      logr.Logger
	// shares are those of the tenants that use the deployment. users is how many owners of each tenant do, and asked how
	// many servers are asked on behalf of each. The lock of shares guards them.
	shares       *shares
	users, asked map[string]int
	// changed is set when a place may have changed. Before that, moved is called with what will be known.
	changed chan<- struct{}
	moved   func(next *view)
	// owners are those that use the deployment. inUse has how many of them may use each master of a Cluster, refusals is how
	// many may not use theirs, and refused is why. The lock of the directory guards them.
	owners   map[owner]struct{}
	inUse    map[auth.Endpoint]int
	refusals int
	refused  error
	// gone is closed when nobody uses the deployment any longer.
	gone chan struct{}

	// news has a token when there is an answer that was not considered.
	news chan struct{}

	// known is what is known; nil before the first answers.
	known atomic.Pointer[view]
	// looked is when run last looked for answers that have become old.
	looked atomic.Pointer[time.Time]
	// changes grows when places have changed. It begins with the time, so that a deployment that was not followed for a while
	// does not get a number again.
	changes atomic.Uint64
	// epoch is that of the latest failover that any sentinel knew of, masters are the masters that were known last, and
	// peers is what the servers of the deployment were last known by. outsiders has the addresses of servers that answer and
	// do not belong to it. Only run uses them.
	epoch     uint64
	masters   []auth.Endpoint
	peers     map[string]bool
	outsiders map[string]bool
	begun     time.Time
	// witness is the address that the user has written and that has answered; nil before the first answer. unused has the
	// announced servers that cannot be used.
	witness  atomic.Pointer[string]
	unusedMu sync.Mutex
	unused   map[string]bool
	// newAddresses limits how many new addresses are used: servers may name ever new ones. met has when an address was in
	// use last.
	newAddresses *rate.Limiter
	met          map[string]time.Time

	mu      sync.Mutex
	answers map[string]answer
	pollers map[string]*poller
	// differs means that an answer differs from the one before.
	differs bool
	// noted numbers the answers that say something new. considered is the number of the last one that was considered, and
	// lasted how long that took.
	noted, considered uint64
	lasted            time.Duration
	// heard is closed, and replaced, after an answer, and after answers were considered.
	heard chan struct{}
}

func newFollower(pool *connection.Pool, shares *shares, e auth.Endpoint, changed chan<- struct{}, log logr.Logger) *follower {
	f := &follower{
		endpoint: e, pool: pool, log: log, shares: shares, users: map[string]int{}, asked: map[string]int{},
		changed: changed, gone: make(chan struct{}), news: make(chan struct{}, 1), heard: make(chan struct{}),
		answers: map[string]answer{}, pollers: map[string]*poller{}, begun: time.Now(),
		newAddresses: rate.NewLimiter(rate.Every(newAddressInterval), mostNewAddresses), met: map[string]time.Time{},
		unused: map[string]bool{}, owners: map[owner]struct{}{}, inUse: map[auth.Endpoint]int{}, moved: func(*view) { /* nobody claims */ },
	}
	f.changes.Store(uint64(f.begun.UnixNano()))
	if e.Mode == auth.ModeSentinel {
		f.deployment = sentinels{e}
	} else {
		f.deployment = cluster{e}
	}
	return f
}

// run asks servers until nobody uses the deployment any longer or ctx is done.
func (f *follower) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	ticker := time.NewTicker(askInterval)
	defer ticker.Stop()
	f.adjust(ctx, &asking)
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.gone:
			stop()
			return
		case <-f.news:
		case <-ticker.C: // Answers may have become old.
			f.forget()
		}
		f.step(ctx, &asking)
	}
}

// step considers the answers and asks the servers that follow from them.
func (f *follower) step(ctx context.Context, asking *sync.WaitGroup) {
	f.mu.Lock()
	noted := f.noted
	f.mu.Unlock()
	began := time.Now()
	f.consider(began)
	f.adjust(ctx, asking)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.considered, f.lasted = noted, time.Since(began)
	f.announce()
}

// adjust asks the servers that are to be asked, and no others.
func (f *follower) adjust(ctx context.Context, asking *sync.WaitGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := f.wanted(f.ofDeployment(), f.masters)
	for address, p := range f.pollers {
		if !slices.Contains(wanted, address) {
			p.stop()
			delete(f.pollers, address)
			delete(f.answers, address)
			f.differs = true
		}
	}
	for _, address := range wanted {
		if f.pollers[address] == nil && f.meet(address) {
			f.poll(ctx, asking, address)
		}
	}
}

// poll begins to ask a server, if there may be one more. Call it with the lock held.
func (f *follower) poll(ctx context.Context, asking *sync.WaitGroup, address string) {
	end, admitted := f.shares.admit(f)
	if !admitted {
		return
	}
	polling, stop := context.WithCancel(ctx)
	p := &poller{
		address: address, conn: f.pool.Conn(f.server(address), 0), ask: f.ask, begin: f.begin,
		hurry: make(chan struct{}, 1), stop: stop,
	}
	f.pollers[address] = p
	asking.Go(func() {
		defer end()
		p.run(polling, func(said answer) time.Duration { return f.settle(polling, f.note(p, said)) })
	})
	if f.endpoint.Mode == auth.ModeSentinel {
		asking.Go(func() { f.listen(polling, p.conn) })
	}
}

// judge returns the answers of servers that belong to the deployment, and keeps which ones do not. An address, such as that
// of a Pod, may by now be that of a server of another deployment. So a server counts if the user names it, or if servers that
// count know it, or did before.
func (f *follower) judge(said []answer) (believed []answer) {
	known := f.knownBefore(said)
	f.outsiders = map[string]bool{}
	for _, each := range said {
		f.outsiders[each.from] = true
	}
	for before := -1; before < len(believed); {
		before = len(believed)
		for _, each := range said {
			if !f.outsiders[each.from] || !f.names(each.from) && !f.belongs(each, known) {
				continue
			}
			delete(f.outsiders, each.from)
			believed = append(believed, each)
			for _, peer := range each.peers() {
				known[peer] = true
			}
		}
	}
	return believed
}

// foreign returns the addresses of nodes that have the ID of another Cluster, by what they say themselves. The nodes that
// believe such an address to be that of one of them do not know yet.
func (f *follower) foreign(said []answer) map[string]bool {
	found := map[string]bool{}
	for _, each := range said {
		if f.outsiders[each.from] && each.nodes != nil && each.nodes.self != "" {
			found[each.from] = true
		}
	}
	return found
}

// names reports whether the user names an address.
func (f *follower) names(address string) bool {
	return slices.Contains(f.endpoint.Addresses(), address)
}

// knownBefore returns what the servers of the deployment were known by. It is empty if those that the user names know
// others, but none of these: then the addresses lead to another deployment now.
func (f *follower) knownBefore(said []answer) map[string]bool {
	var told []string
	for _, each := range said {
		if f.names(each.from) {
			told = append(told, each.peers()...)
		}
	}
	known := map[string]bool{}
	if len(told) == 0 || slices.ContainsFunc(told, func(peer string) bool { return f.peers[peer] }) {
		maps.Copy(known, f.peers)
	}
	return known
}

// ofDeployment returns the answers, except for those of servers that do not belong to the deployment. Call it with the
// lock held.
func (f *follower) ofDeployment() map[string]answer {
	all := maps.Clone(f.answers)
	maps.DeleteFunc(all, func(address string, _ answer) bool { return f.outsiders[address] })
	return all
}

// meet reports whether an address may be used: it is known, or there were few new ones.
func (f *follower) meet(address string) bool {
	if _, known := f.met[address]; !known && !f.names(address) && !f.newAddresses.Allow() {
		return false
	}
	f.met[address] = time.Now()
	return true
}

// forget forgets the addresses that were not in use for some time.
func (f *follower) forget() {
	f.mu.Lock()
	for address := range f.pollers {
		f.met[address] = time.Now()
	}
	f.mu.Unlock()
	if known := f.known.Load(); known != nil {
		for _, each := range known.servers() {
			f.met[each.Address] = time.Now()
		}
	}
	maps.DeleteFunc(f.met, func(_ string, at time.Time) bool { return time.Since(at) > forgetAddress })
}

// begin waits until a server may be asked.
func (f *follower) begin(ctx context.Context) (end func(time.Duration), err error) {
	return f.shares.begin(ctx, f)
}

// note takes an answer, unless its server is not asked any longer, and returns its number; 0 if it says the same as the
// one before. After an error, what the server said before counts for a while.
func (f *follower) note(from *poller, said answer) (number uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pollers[from.address] != from {
		return 0
	}
	before := f.answers[from.address]
	if said.err != nil {
		said.asked, said.by, said.others, said.life, said.nodes = before.asked, before.by, before.others, before.life, before.nodes
	}
	said.from, said.number = from.address, before.number
	if !said.same(before) {
		f.noted++
		number, said.number = f.noted, f.noted
		f.differs = true
		set(f.news)
	}
	f.answers[from.address] = said
	f.announce()
	return number
}

// announce wakes those who wait for answers. Call it with the lock held.
func (f *follower) announce() {
	close(f.heard)
	f.heard = make(chan struct{})
}

// settle waits until the answer with this number was considered or ctx is done, and returns how long that took.
func (f *follower) settle(ctx context.Context, number uint64) (lasted time.Duration) {
	for number > 0 {
		f.mu.Lock()
		heard, considered, lasted := f.heard, f.considered, f.lasted
		f.mu.Unlock()
		if considered >= number {
			return lasted
		}
		select {
		case <-ctx.Done():
			return 0
		case <-heard:
		}
	}
	return 0
}

// consider publishes what follows from the answers, if they differ or have become old.
func (f *follower) consider(now time.Time) {
	f.looked.Store(&now)
	said, causes, asked, complete, differ := f.recent(now)
	if !differ {
		return
	}
	believed := f.judge(said)
	if len(believed) == 0 && len(said) > 0 {
		causes = append(causes, anotherDeployment())
	}
	next := f.conclude(believed, causes, asked, complete || now.Sub(f.begun) >= askInterval)
	if next == nil {
		return // The first answers are still to come.
	}
	f.attest(believed)
	next.leaveOut(f.foreign(said))
	if next.err == nil || next.epoch > f.epoch {
		f.epoch = next.epoch
	}
	if next.err == nil {
		f.masters = next.masters
	}
	// Servers that know nobody, as right after a start, do not show that the others are gone.
	if peers := peersOf(believed); len(peers) > 0 {
		f.peers = peers
	}
	f.publish(next)
}

// publish makes known what follows from the answers.
func (f *follower) publish(next *view) {
	before := f.known.Load()
	if before != nil && before.same(next) {
		f.known.Store(next)
		return
	}
	f.moved(next)
	f.known.Store(next)
	f.changes.Add(1)
	set(f.changed)
	f.describe(before, next)
	f.forgetUnused(next)
}

// peersOf returns what servers are known by.
func peersOf(said []answer) map[string]bool {
	peers := map[string]bool{}
	for _, each := range said {
		for _, peer := range each.peers() {
			peers[peer] = true
		}
	}
	return peers
}

// conclude returns what follows from the answers and from the errors of the servers that have not answered. It returns nil
// while the first answers are still to come. Before that, waited says whether errors alone count.
func (f *follower) conclude(said []answer, causes []*failure.Error, asked int, waited bool) *view {
	next := f.decide(said, asked, f.epoch)
	if next == nil {
		cause := worst(causes)
		switch {
		case cause != nil && (waited || f.known.Load() != nil):
			return &view{err: f.explain(cause)}
		case cause == nil && f.known.Load() != nil: // The answers have become old, and nothing has failed.
			return &view{err: failure.Classify(fmt.Errorf("asking where keys of %s are: %w", f.endpoint, failure.ErrBusy))}
		}
		return nil
	}
	if next.err == nil && slices.ContainsFunc(next.servers(), func(is auth.Endpoint) bool { return !f.meet(is.Address) }) {
		f.mu.Lock()
		f.differs = true // Some may be met later.
		f.mu.Unlock()
		return &view{err: tooManyAddresses()}
	}
	return next
}

// recent returns the answers that count now, why others have none, how many servers are asked, whether each of them was
// asked already, and whether anything of this differs from before.
func (f *follower) recent(now time.Time) (said []answer, causes []*failure.Error, asked int, complete, differ bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	complete = len(f.answers) == len(f.pollers)
	if len(f.pollers) == 0 {
		causes = append(causes, tooManyAsked())
	}
	for _, address := range slices.Sorted(maps.Keys(f.answers)) {
		each := f.answers[address]
		if each.hasSaid() && each.old(now) {
			each.by, each.others, each.nodes, f.differs = nil, nil, nil, true
			f.answers[address] = each
		}
		if each.hasSaid() {
			said = append(said, each)
		}
		if each.err != nil {
			causes = append(causes, f.aboutAsked(address, each.err))
		}
	}
	differ = f.differs || f.known.Load() == nil
	f.differs = false
	return said, causes, len(f.pollers), complete, differ
}

// aboutAsked returns why a server does not answer the question where keys are.
func (f *follower) aboutAsked(address string, cause *failure.Error) *failure.Error {
	if f.names(address) || !outOfReach(cause) {
		return cause
	}
	return f.announced(f.server(address), cause, cause)
}

func anotherDeployment() *failure.Error {
	return &failure.Error{
		Reason:  failure.ReasonUnreachable,
		Message: "The servers that answer belong to another Redis deployment. Check that spec.redis.addresses are those of your servers.",
		Err:     errors.New("no server that answers is known to the others"),
	}
}

func tooManyAddresses() *failure.Error {
	return &failure.Error{
		Reason:  failure.ReasonUnreachable,
		Message: "The servers of the Redis deployment name too many different addresses. Check that spec.redis.addresses are those of your servers.",
		Err:     errors.New("too many new addresses"),
	}
}

// describe logs what is new.
func (f *follower) describe(before, next *view) {
	const mostLogged = 8
	if next.err != nil {
		f.log.Info("The servers of a Redis deployment do not say where keys are", "reason", next.err.Reason, "cause", f.withoutPassword(next.err.Cause()))
		return
	}
	if before == nil || before.err != nil || !slices.Equal(before.masters, next.masters) {
		first := make([]string, 0, mostLogged)
		for _, each := range next.masters[:min(len(next.masters), mostLogged)] {
			first = append(first, f.shown(each.Address))
		}
		f.log.Info("The masters of a Redis deployment", "masters", len(next.masters), "addresses", first)
	}
}

// locate returns where a key is.
func (f *follower) locate(key string) (Place, error) {
	known, looked := f.known.Load(), f.looked.Load()
	if known == nil || since(*looked, time.Now()) >= lookTimeout {
		return Place{}, failure.Classify(fmt.Errorf("asking where keys of %s are: %w", f.endpoint, failure.ErrBusy))
	}
	return known.locate(key)
}

// locate returns where a key is.
func (v *view) locate(key string) (Place, error) {
	switch {
	case v.err != nil:
		return Place{}, v.err
	case v.owners == nil:
		return Place{Owner: v.masters[0]}, nil
	}
	slot := SlotOf(key)
	owner := v.owners[slot]
	if owner == 0 {
		return Place{}, slotUncovered(slot)
	}
	return Place{Owner: v.masters[owner-1], Importing: v.importing[slot]}, nil
}

func (f *follower) version() uint64 { return f.changes.Load() }

// refresh asks all servers, and returns when all have answered, except those whose last question failed, and the answers
// were considered, or after a moment.
func (f *follower) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	began := time.Now()
	f.hurry()
	for {
		f.mu.Lock()
		heard, waiting := f.heard, false
		for address := range f.pollers {
			last := f.answers[address]
			waiting = waiting || last.err == nil && last.tried.Before(began) || last.number > f.considered
		}
		f.mu.Unlock()
		if !waiting {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-heard:
		}
	}
}

// hurry has all servers be asked now.
func (f *follower) hurry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pollers {
		set(p.hurry)
	}
}

// severity orders the reasons for which servers do not answer: what only a person can mend comes first.
var severity = []failure.Reason{
	failure.ReasonWrongMode, failure.ReasonMasterNotFound, failure.ReasonDialDenied, failure.ReasonAuthFailed, failure.ReasonPermissionDenied,
	failure.ReasonTLSFailed, failure.ReasonSecretNotFound, failure.ReasonSecretInvalid, failure.ReasonSecretForbidden,
}

// worst returns the error that tells most; nil if there is none.
func worst(causes []*failure.Error) *failure.Error {
	var found *failure.Error
	rank := func(err *failure.Error) int {
		if at := slices.Index(severity, err.Reason); at >= 0 {
			return at
		}
		return len(severity)
	}
	for _, each := range causes {
		if !each.Busy() && (found == nil || rank(each) < rank(found)) {
			found = each
		}
	}
	return found
}
