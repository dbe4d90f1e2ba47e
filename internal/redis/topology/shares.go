// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// mostAskedEach is how many servers are asked on behalf of one tenant.
	mostAskedEach = 512
	// placesEach is how many questions may be under way on behalf of one tenant. It bounds the memory of replies.
	placesEach = 4
	// A question keeps its place for questionCost after its answer was considered, for byteCost for each byte that the
	// server has sent, and for conclusionCost times as long as considering it took, up to longestCost.
	questionCost   = 8 * time.Millisecond
	byteCost       = 500 * time.Nanosecond
	conclusionCost = 10
	longestCost    = 30 * time.Second
)

// errUnused is returned for a follower that nobody uses any longer.
var errUnused = errors.New("nobody uses the deployment")

// costOf is how long a question keeps its place, by the bytes that the server has sent meanwhile, also in other replies,
// and by how long it took to consider the answer.
func costOf(received int64, considering time.Duration) time.Duration {
	return min(questionCost+time.Duration(max(received, 0))*byteCost+conclusionCost*considering, longestCost)
}

// shares has the share of each tenant: mostAskedEach servers that are asked, and placesEach places for questions to
// them. Servers decide how large their replies are and how often they differ, and users choose the servers. So the work
// for one tenant is bounded, and others do not wait for it. It is safe for concurrent use.
type shares struct {
	mu sync.Mutex
	of map[string]*share
}

// share is that of one tenant.
type share struct {
	// users is how many owners use followers, asked how many servers are asked, and taken how many places are.
	users, asked, taken int
	// waiting are those who wait for a place, in their order.
	waiting []*waiter
}

// waiter waits for a place in the share of any of these tenants.
type waiter struct {
	tenants []string
	place   chan string // the tenant
}

func newShares() *shares { return &shares{of: map[string]*share{}} }

// join counts that an owner of a tenant uses a follower.
func (s *shares) join(f *follower, tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[tenant] == nil {
		s.of[tenant] = &share{}
	}
	s.of[tenant].users++
	f.users[tenant]++
}

// leave ends that, and returns whether nobody uses the follower any longer. If others do, its servers are asked on their
// behalf.
func (s *shares) leave(f *follower, tenant string) (unused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.users[tenant]--; f.users[tenant] == 0 {
		delete(f.users, tenant)
		if heir := s.leastAsked(f); heir != "" {
			s.count(f, heir, f.asked[tenant])
			s.count(f, tenant, -f.asked[tenant])
		}
	}
	s.of[tenant].users--
	s.forget(tenant)
	return len(f.users) == 0
}

// admit reports whether one more server of a follower may be asked. If so, call end when it is not asked any longer.
func (s *shares) admit(f *follower) (end func(), admitted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tenant := s.leastAsked(f)
	if tenant == "" || s.of[tenant].asked >= mostAskedEach {
		return nil, false
	}
	s.count(f, tenant, 1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for tenant := range f.asked { // Any of them.
			s.count(f, tenant, -1)
			s.forget(tenant)
			return
		}
	}, true
}

// leastAsked returns the tenant, of those that use the follower, for which the fewest servers are asked; "" if nobody uses
// it. Call it with the lock held.
func (s *shares) leastAsked(f *follower) (least string) {
	for tenant := range f.users {
		if least == "" || s.of[tenant].asked < s.of[least].asked {
			least = tenant
		}
	}
	return least
}

// count counts that so many more servers of a follower are asked on behalf of a tenant. Call it with the lock held.
func (s *shares) count(f *follower, tenant string, more int) {
	s.of[tenant].asked += more
	if f.asked[tenant] += more; f.asked[tenant] == 0 {
		delete(f.asked, tenant)
	}
}

// begin waits for a place in the share of any tenant that uses the follower: nobody slows a deployment down by using it
// too. Call end afterwards, with how long the place is to be kept. The error is that of ctx, or [errUnused].
func (s *shares) begin(ctx context.Context, f *follower) (end func(cost time.Duration), err error) {
	tenant, wait, err := s.take(f)
	if err != nil {
		return nil, err
	}
	if wait != nil {
		select {
		case tenant = <-wait.place:
		case <-ctx.Done():
			s.giveUp(wait)
			return nil, fmt.Errorf("waiting for a place: %w", context.Cause(ctx))
		}
	}
	return func(cost time.Duration) { time.AfterFunc(cost, func() { s.release(tenant) }) }, nil
}

// take takes a place in the share of a tenant, or returns who waits for one.
func (s *shares) take(f *follower) (tenant string, wait *waiter, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(f.users) == 0 {
		return "", nil, errUnused
	}
	wait = &waiter{place: make(chan string, 1)}
	for tenant := range f.users {
		if of := s.of[tenant]; of.taken < placesEach {
			of.taken++
			return tenant, nil, nil
		}
		wait.tenants = append(wait.tenants, tenant)
	}
	for _, tenant := range wait.tenants {
		s.of[tenant].waiting = append(s.of[tenant].waiting, wait)
	}
	return "", wait, nil
}

// release gives a place to whoever waits for it first, or back.
func (s *shares) release(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(tenant)
}

func (s *shares) releaseLocked(tenant string) {
	of := s.of[tenant]
	if len(of.waiting) > 0 {
		first := of.waiting[0]
		s.withdraw(first)
		first.place <- tenant
		return
	}
	of.taken--
	s.forget(tenant)
}

// giveUp ends the wait for a place. There may be one by now.
func (s *shares) giveUp(wait *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case tenant := <-wait.place:
		s.releaseLocked(tenant)
	default:
		s.withdraw(wait)
	}
}

// withdraw removes a waiter. Call it with the lock held.
func (s *shares) withdraw(wait *waiter) {
	for _, tenant := range wait.tenants {
		of := s.of[tenant]
		of.waiting = slices.DeleteFunc(of.waiting, func(each *waiter) bool { return each == wait })
		s.forget(tenant)
	}
}

// forget removes a share that is not used. One that is used still counts if its tenant comes again. Call it with the lock
// held.
func (s *shares) forget(tenant string) {
	of := s.of[tenant]
	if of.users == 0 && of.asked == 0 && of.taken == 0 && len(of.waiting) == 0 {
		delete(s.of, tenant)
	}
}

func tooManyAsked() *failure.Error {
	return &failure.Error{
		Reason: failure.ReasonTooManyServers,
		Message: "The ScaledJobs of this namespace use Redis deployments with more sentinels and nodes than the operator asks per namespace. " +
			"Use fewer deployments.",
		Err: fmt.Errorf("%d servers are asked already", mostAskedEach),
	}
}
