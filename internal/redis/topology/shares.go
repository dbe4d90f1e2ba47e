// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// mostAskedEach is how many servers are asked on behalf of one tenant.
	mostAskedEach = 512
	// placesEach is how many questions and conclusions may be under way on behalf of one tenant. It bounds the memory of
	// replies.
	placesEach = 4
	// A question keeps its place for questionCost after its end, and for byteCost for each byte that the server has sent. A
	// conclusion keeps it for conclusionCost times as long as it took, up to longestCost.
	questionCost   = 8 * time.Millisecond
	byteCost       = time.Microsecond
	conclusionCost = 10
	longestCost    = 10 * time.Second
)

// costOf is how long a question keeps its place after its end, by the bytes that the server has sent.
func costOf(received int64) time.Duration {
	return questionCost + time.Duration(max(received, 0))*byteCost
}

// shares has the share of each tenant: mostAskedEach servers that are asked, and placesEach places for questions to them
// and for conclusions from their answers. Servers decide how large their replies are and how often they differ, and users choose the servers. So the
// work for one tenant is bounded, and others do not wait for it. It is safe for concurrent use.
type shares struct {
	mu sync.Mutex
	of map[string]*share
}

// share is that of one tenant.
type share struct {
	places chan struct{}
	// users is how many owners use followers, and asked how many servers are asked. load is how many questions and
	// conclusions have a place or wait for one.
	users, asked, load int
}

// free ends what has no place.
func free(time.Duration) {}

func newShares() *shares { return &shares{of: map[string]*share{}} }

// join counts that an owner of a tenant uses a follower.
func (s *shares) join(f *follower, tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[tenant] == nil {
		s.of[tenant] = &share{places: make(chan struct{}, placesEach)}
	}
	s.of[tenant].users++
	f.users[tenant]++
}

// leave ends that, and returns whether nobody uses the follower any longer.
func (s *shares) leave(f *follower, tenant string) (unused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.users[tenant]--; f.users[tenant] == 0 {
		delete(f.users, tenant)
	}
	s.of[tenant].users--
	s.forget(tenant)
	return len(f.users) == 0
}

// admit reports whether one more server of a follower may be asked. If so, call leave when it is not asked any longer.
func (s *shares) admit(f *follower) (leave func(), admitted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tenant, of := s.least(f, func(of *share) int { return of.asked })
	if of == nil || of.asked == mostAskedEach {
		return nil, false
	}
	of.asked++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		of.asked--
		s.forget(tenant)
	}, true
}

// begin waits for a place in the share of a tenant that uses the follower: of several, in that with the least load, so that
// nobody slows a deployment down by using it too. Call end at the end, with how long the place is to be kept. The
// error is that of ctx.
func (s *shares) begin(ctx context.Context, f *follower) (end func(cost time.Duration), err error) {
	tenant, of := s.pick(f)
	if of == nil { // The follower is about to end.
		return free, nil
	}
	select {
	case of.places <- struct{}{}:
		return func(cost time.Duration) {
			time.AfterFunc(min(cost, longestCost), func() {
				<-of.places
				s.done(tenant)
			})
		}, nil
	case <-ctx.Done():
		s.done(tenant)
		return nil, fmt.Errorf("waiting for a place: %w", context.Cause(ctx))
	}
}

// pick returns the share to use, and counts that it is used until done. It returns nil if nobody uses the follower.
func (s *shares) pick(f *follower) (tenant string, least *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tenant, least = s.least(f, func(of *share) int { return of.load })
	if least != nil {
		least.load++
	}
	return tenant, least
}

// least returns the share, of those of the tenants that use the follower, of which the least is used; nil if there is none.
// Call it with the lock held.
func (s *shares) least(f *follower, used func(*share) int) (tenant string, least *share) {
	for each := range f.users {
		if of := s.of[each]; least == nil || used(of) < used(least) {
			tenant, least = each, of
		}
	}
	return tenant, least
}

func (s *shares) done(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[tenant].load--
	s.forget(tenant)
}

func tooManyAsked() *failure.Error {
	return &failure.Error{
		Reason: failure.ReasonTooManyServers,
		Message: "The ScaledJobs of this namespace use Redis deployments with more sentinels and nodes than the operator asks per namespace. " +
			"Use fewer deployments.",
		Err: fmt.Errorf("%d servers are asked already", mostAskedEach),
	}
}

// forget removes a share that is not used. One that is used still counts if its tenant comes again.
func (s *shares) forget(tenant string) {
	if of := s.of[tenant]; of.users == 0 && of.asked == 0 && of.load == 0 {
		delete(s.of, tenant)
	}
}
