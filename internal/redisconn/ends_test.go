// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redact"
	"miracle.dev/scaledjob-operator/internal/redisaccess"
	"miracle.dev/scaledjob-operator/test/redistest"
)

// A subscription is told to end a moment after the claim has ended, and meanwhile tries again.
func TestNothingIsKeptOfWhatIsUsedForAMomentAfterItsClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		pool := start(t, refuse)
		conn := pool.Conn(somewhere, 0)
		g.Expect(pool.Claim("team", "a", somewhere, 0)).To(Succeed())
		g.Expect(conn.Do(t.Context(), dial)).NotTo(Succeed())
		pool.Release("team", "a")

		g.Expect(conn.WaitUp(t.Context())).To(Succeed())
		_, err := conn.OpenPubSub(t.Context())
		g.Expect(err).To(HaveOccurred())
		synctest.Wait()
		pool.mu.Lock()
		defer pool.mu.Unlock()
		g.Expect(pool.peers).To(BeEmpty(), "a prober would go on to dial it")
	})
}

func TestAPasswordThatIsLoadedTooLateIsForgotten(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	secrets := &slowSecrets{answer: make(chan struct{})}
	secrets.set(map[string]string{"password": "first"})
	pool := startReal(t, withSecrets(secrets))
	endpoint := redisaccess.Endpoint{Address: "127.0.0.1:1", Password: password, Namespace: namespace}
	g.Expect(pool.Claim("team", "a", endpoint, 0)).To(Succeed())
	ended := make(chan error)
	go func() {
		_, err := pool.Conn(endpoint, 0).OpenPubSub(t.Context())
		ended <- err
	}()
	g.Eventually(secrets.count).WithTimeout(timeout).Should(Equal(1))
	pool.Release("team", "a")
	close(secrets.answer)
	g.Eventually(ended).WithTimeout(timeout).Should(Receive(HaveOccurred()))
	g.Expect(pool.passwords).To(Equal(redact.NewRegister()))
}

// What was loaded a while ago does not replace what was found out meanwhile.
func TestALateRenewalReplacesNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	asked, answer := make(chan struct{}, 8), make(chan struct{})
	server := redistest.NewScripted(t, func(args []string) string {
		if args[0] == "hello" && args[len(args)-1] == "second" {
			asked <- struct{}{}
			<-answer
		}
		return redistest.Usual
	})
	secrets := newSecrets(map[string]string{"password": "first"})
	pool := startReal(t, withSecrets(secrets))
	endpoint := redisaccess.Endpoint{Address: server.Addr(), Password: password, Namespace: namespace}
	conn := pool.Conn(endpoint, 0)
	length(t, conn)
	used, err := pool.acquire(endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	defer pool.release(used)

	secrets.set(map[string]string{"password": "second"})
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		pool.renew(t.Context(), used, make(chan struct{}, 1))
	}()
	g.Eventually(asked).WithTimeout(timeout).Should(Receive())
	secrets.set(map[string]string{"password": "third"})
	loaded, cause := used.lookAgain(t.Context())
	g.Expect(cause).To(BeNil())
	closeAll(used.use(loaded))
	close(answer)
	g.Eventually(renewed).WithTimeout(timeout).Should(BeClosed())
	inUse, _ := used.inUse()
	g.Expect(inUse.Password()).To(Equal("third"))
}
