// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"miracle.dev/scaledjob-operator/internal/redis/budget"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

const (
	// mostPolledEach is how many servers are polled on behalf of one tenant.
	mostPolledEach = 512
	// requestsEach is how many requests to them may be under way, until their replies are parsed. It bounds the memory of
	// replies.
	requestsEach = 4
	// requestCost is what sending a request and waiting for its reply counts as, and byteCost what receiving a byte does:
	// the operator cannot measure that. The time to parse replies and to merge what they say is measured.
	requestCost = 200 * time.Microsecond
	byteCost    = 10 * time.Nanosecond
)

// errUnused is returned for a deployment that nobody uses any longer.
var errUnused = errors.New("nobody uses the deployment")

// costOf is what a request counts as, without the time to parse its replies.
func costOf(replies [][]byte, err error) time.Duration {
	if errors.Is(err, resp.ErrTooLarge) {
		return requestCost + resp.MaxReplyBytes*byteCost
	}
	cost := requestCost
	for _, each := range replies {
		cost += time.Duration(len(each)) * byteCost
	}
	return cost
}

// shares has the share of each tenant. Servers decide how large their replies are and how often they differ, and users
// choose the servers. So the work for one tenant is bounded, and others do not wait for it. A deployment that several
// tenants use needs the share of only one of them, so nobody slows it down by using it too. It is safe for concurrent
// use.
type shares struct {
	mu sync.Mutex
	of map[string]*share
}

// share is that of one tenant.
type share struct {
	// users is how many objects of the tenant use a deployment, and polled how many servers of these deployments are
	// polled. The lock of shares guards them.
	users, polled int

	requests *semaphore.Weighted
	time     *budget.Share
}

func newShares() *shares { return &shares{of: map[string]*share{}} }

// join records that an object of a tenant uses a deployment.
func (s *shares) join(w *watcher, tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetIdle()
	of := s.of[tenant]
	if of == nil {
		of = &share{requests: semaphore.NewWeighted(requestsEach), time: budget.New()}
		s.of[tenant] = of
	}
	of.users++
	if w.users[tenant]++; w.users[tenant] == 1 {
		of.polled += w.polled
	}
}

// leave records that an object of a tenant does not use a deployment any longer. It reports whether nobody uses it now.
func (s *shares) leave(w *watcher, tenant string) (unusable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[tenant]
	of.users--
	if w.users[tenant]--; w.users[tenant] == 0 {
		delete(w.users, tenant)
		of.polled -= w.polled
	}
	return len(w.users) == 0
}

// admit returns how many of the servers of a deployment may be polled, and records that they are.
func (s *shares) admit(w *watcher, wanted int) (admitted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tenant := range w.users {
		others := s.of[tenant].polled - w.polled
		admitted = max(admitted, min(wanted, mostPolledEach-others))
	}
	for tenant := range w.users {
		s.of[tenant].polled += admitted - w.polled
	}
	w.polled = admitted
	return admitted
}

// begin waits until a server of a deployment may be polled, and returns the share of the tenant that this takes. Call
// end afterwards. The error is that of ctx, or [errUnused].
func (s *shares) begin(ctx context.Context, w *watcher) (*share, error) {
	all := s.usedBy(w)
	if len(all) == 0 {
		return nil, errUnused
	}
	for _, each := range all {
		if each.tryBegin() {
			return each, nil
		}
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	first := make(chan *share)
	for _, each := range all {
		go func() {
			if each.begin(waiting) != nil {
				return
			}
			select {
			case first <- each:
			case <-waiting.Done():
				each.end()
			}
		}()
	}
	select {
	case begun := <-first:
		return begun, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting to poll a server: %w", context.Cause(ctx))
	}
}

// charge records that processing responses of a deployment took so long. It is taken from the share that has most left.
func (s *shares) charge(w *watcher, took time.Duration) {
	all := s.usedBy(w)
	if len(all) == 0 {
		return
	}
	slices.MaxFunc(all, func(a, b *share) int { return cmp.Compare(a.time.Left(), b.time.Left()) }).time.Charge(took)
}

// usedBy returns the shares of the tenants that use a deployment.
func (s *shares) usedBy(w *watcher) (all []*share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tenant := range w.users {
		all = append(all, s.of[tenant])
	}
	return all
}

// forgetIdle removes the shares that are not used and that would be the same if they were new. Call it with the lock
// held.
func (s *shares) forgetIdle() {
	for tenant, of := range s.of {
		if of.users == 0 && of.time.Full() && of.requests.TryAcquire(requestsEach) {
			delete(s.of, tenant)
		}
	}
}

// begin waits until there is room for a request, and no debt.
func (s *share) begin(ctx context.Context) error {
	if err := s.requests.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("waiting to poll a server: %w", context.Cause(ctx))
	}
	if err := s.time.Wait(ctx); err != nil {
		s.requests.Release(1)
		return err
	}
	return nil
}

// tryBegin is begin without waiting.
func (s *share) tryBegin() bool { return s.time.Left() >= 0 && s.requests.TryAcquire(1) }

// end ends a request.
func (s *share) end() { s.requests.Release(1) }

func tooManyPolled() *failure.Error {
	return &failure.Error{
		Reason: failure.ReasonTooManyServers,
		Message: "The ScaledJobs of this namespace use Redis deployments with more sentinels and nodes than the operator asks per namespace. " +
			"Use fewer deployments.",
		Err: fmt.Errorf("%d servers are asked already", mostPolledEach),
	}
}
