// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"sync"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

var errRefusedConnection = failure.Classify(syscall.ECONNREFUSED)

// newCredentials returns credentials with a pointer of their own.
func newCredentials() *auth.Credentials { return &auth.Credentials{} }

// newTestHealth returns the health of a server with these credentials in use.
func newTestHealth(inUse *auth.Credentials) *health {
	unused := &clients{connect: func(with *auth.Credentials, _ int) *redis.Client {
		return newClient(somewhere, with, productionTiming(), 1, refuse)
	}}
	return newHealth(unused.successor(inUse))
}

// A failure with former credentials does not mark the server down, and credentials that were checked before a failure
// are not put in use after it.
func TestCredentialsEitherFailOrAreReplaced(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for range 1000 {
		before, after := newCredentials(), newCredentials()
		health := newTestHealth(before)
		var failed, replaced bool
		var both sync.WaitGroup
		both.Go(func() { _, failed = health.fail(before, errRefusedConnection) })
		both.Go(func() { _, replaced = health.replace(before, after) })
		both.Wait()
		g.Expect(failed).NotTo(Equal(replaced))
		inUse, down := health.current()
		g.Expect(down != nil).To(Equal(failed))
		g.Expect(inUse.credentials == after).To(Equal(replaced))
	}
}

func TestACallThatWasAdmittedBeforeAFailureMakesNoClientAfterIt(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	used := newCredentials()
	health := newTestHealth(used)
	admitted, err := health.usable()
	g.Expect(err).NotTo(HaveOccurred())
	client := admitted.get(0)
	g.Expect(client).NotTo(BeNil())
	g.Expect(admitted.has(0, client)).To(BeTrue())

	retired, wentDown := health.fail(used, errRefusedConnection)
	g.Expect(wentDown).To(BeTrue())
	retired.close()
	g.Expect(admitted.get(0)).To(BeNil())
	g.Expect(admitted.get(1)).To(BeNil())
	g.Expect(admitted.has(0, client)).To(BeFalse(), "the failure of a former client is ignored")
	_, err = health.usable()
	g.Expect(err).To(Equal(errRefusedConnection))

	health.restore()
	inUse, err := health.usable()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inUse.get(0)).NotTo(BeIdenticalTo(client))
	inUse.close()
}

// The first credentials may be loaded twice, and late.
func TestTheFirstCredentialsReplaceNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	first, second := newCredentials(), newCredentials()
	health := newTestHealth(nil)
	g.Expect(health.useFirst(first)).To(BeIdenticalTo(first))
	g.Expect(health.useFirst(second)).To(BeIdenticalTo(first))

	_, wentDown := health.fail(first, errRefusedConnection)
	g.Expect(wentDown).To(BeTrue())
	_, err := health.useFirst(second)
	g.Expect(err).To(Equal(errRefusedConnection), "the prober finds the credentials")
}

func TestOnlyWhatIsInUseIsWithdrawn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	before, after := newCredentials(), newCredentials()
	health := newTestHealth(before)
	_, renewed := health.successorDue(before)
	health.use(after)
	g.Expect(renewed).To(BeClosed())
	_, done := health.withdraw(before)
	g.Expect(done).To(BeFalse())
	inUse, _ := health.current()
	g.Expect(inUse.credentials).To(BeIdenticalTo(after))
	_, done = health.withdraw(after)
	g.Expect(done).To(BeTrue())
}

// A rejection is valid only for the credentials that stayed in use.
func TestARejectionEndsWithTheCredentialsInUse(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var known credentials
	first, second, wanted := newCredentials(), newCredentials(), newCredentials()
	refused := failure.Classify(replyError("WRONGPASS x"))
	g.Expect(known.reject(first, wanted, refused)).To(BeTrue())
	g.Expect(known.reject(first, wanted, refused)).To(BeFalse(), "it is not new")
	g.Expect(known.rejection(first)).To(Equal(refused))
	g.Expect(known.rejection(second)).To(BeNil())
	g.Expect(known.reject(second, wanted, refused)).To(BeTrue())
	known.clearRejected()
	g.Expect(known.rejection(second)).To(BeNil())
}
