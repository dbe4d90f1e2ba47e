// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

var errRefusedConnection = failure.Classify(syscall.ECONNREFUSED)

// newCredentials returns credentials with a pointer of their own.
func newCredentials() *auth.Credentials { return &auth.Credentials{} }

// newTestServer returns a server with these credentials in use. It refuses connections.
func newTestServer(inUse *auth.Credentials) *server {
	server := NewPool(Options{Dial: refuse}).newServer(somewhere)
	server.inUse = newClients(inUse)
	return server
}

// A failure with former credentials does not mark the server down, and credentials that were checked before a failure
// are not put in use after it.
func TestCredentialsEitherFailOrAreReplaced(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for range 1000 {
		before, after := newCredentials(), newCredentials()
		server := newTestServer(before)
		var replaced bool
		var both sync.WaitGroup
		both.Go(func() { server.markDown(before, errRefusedConnection) })
		both.Go(func() { _, replaced = server.replace(before, after) })
		both.Wait()
		inUse, down := server.current()
		g.Expect(down != nil).NotTo(Equal(replaced))
		g.Expect(inUse == after).To(Equal(replaced))
	}
}

func TestACallThatWasAdmittedBeforeAFailureMakesNoClientAfterIt(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	used := newCredentials()
	server := newTestServer(used)
	client := must.Get(server.admit(0))(g)
	g.Expect(client).NotTo(BeNil())

	server.markDown(used, errRefusedConnection)
	g.Expect(server.admit(0)).Error().To(Equal(errRefusedConnection))
	g.Expect(server.firstClient(t.Context(), 1)).Error().To(Equal(errRefusedConnection))
	g.Expect(client.Ping(t.Context()).Err()).To(MatchError(redis.ErrClosed))

	server.markUp(used)
	next := must.Get(server.admit(0))(g)
	g.Expect(next).NotTo(BeIdenticalTo(client))
	g.Expect(server.failed(0, client, redis.ErrClosed, time.Now())).To(MatchError(failure.ErrBusy))
	_, down := server.current()
	g.Expect(down).To(BeNil(), "the failure of a former client is ignored")
	server.closeClients()
}

// The first credentials may be loaded twice, and late.
func TestTheFirstCredentialsReplaceNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	first, second := newCredentials(), newCredentials()
	server := newTestServer(nil)
	for _, loaded := range []*auth.Credentials{first, second} {
		server.replace(nil, loaded)
		inUse, _ := server.current()
		g.Expect(inUse).To(BeIdenticalTo(first))
	}
	server = newTestServer(nil)
	server.markDown(nil, errRefusedConnection)
	server.replace(nil, second)
	inUse, down := server.current()
	g.Expect(inUse).To(BeNil(), "the keeper finds the credentials")
	g.Expect(down).To(Equal(errRefusedConnection))
}

func TestOnlyWhatIsInUseIsWithdrawn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	before, after := newCredentials(), newCredentials()
	server := newTestServer(before)
	renewed := server.changed
	server.replace(before, after)
	g.Expect(renewed).To(BeClosed())
	server.revoke(before)
	inUse, _ := server.current()
	g.Expect(inUse).To(BeIdenticalTo(after))
	server.revoke(after)
	inUse, _ = server.current()
	g.Expect(inUse).To(BeNil())
}

// A rejection is valid only for the credentials that stayed in use.
func TestARejectionEndsWithTheCredentialsInUse(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	first, second, wanted := newCredentials(), newCredentials(), newCredentials()
	refused := failure.Classify(replyError("WRONGPASS x"))
	server := newTestServer(first)
	g.Expect(server.reject(first, wanted, refused)).To(BeTrue())
	g.Expect(server.reject(first, wanted, refused)).To(BeFalse(), "it is not new")
	g.Expect(server.rejection()).To(Equal(refused))
	server.replace(first, second)
	g.Expect(server.rejection()).To(BeNil())
	g.Expect(server.reject(second, wanted, refused)).To(BeTrue())
	g.Expect(server.rejection()).To(Equal(refused))
	server.clearRejected()
	g.Expect(server.rejection()).To(BeNil())
}

// However often the server comes back before a wire has its successor, one goroutine looks for that.
func TestAWireIsReplacedOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	before, after := newCredentials(), newCredentials()
	server := newTestServer(before)
	wire := &Wire{server: server, credentials: before}
	server.wires[wire] = struct{}{}
	var looking atomic.Int32
	found := make(chan struct{})
	wire.onRenewed(func() {
		looking.Add(1)
		<-found
	})
	server.replace(before, after)
	for range 100 {
		server.markDown(after, errRefusedConnection)
		server.markUp(after)
	}
	close(found)
	g.Expect(wire.replace).To(BeNil())
	g.Eventually(looking.Load).WithTimeout(timeout).Should(BeEquivalentTo(1))
}
