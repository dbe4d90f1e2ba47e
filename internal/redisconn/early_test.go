// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redisaccess"
	"miracle.dev/scaledjob-operator/internal/rediserror"
)

// The Secret holds a password that the server does not know yet, when the server is away for a
// moment. What was in use before still lets the operator in.
func TestAServerThatComesBackIsUsedAsBeforeUntilItKnowsTheNewPassword(t *testing.T) {
	t.Parallel()
	r := newRotating(t)
	r.secrets.set(map[string]string{"password": "not yet"})
	seen := r.secrets.count()
	r.Eventually(r.secrets.count).WithTimeout(timeout).Should(BeNumerically(">", seen+3))
	r.Expect(r.server.Pause()).To(Succeed())
	r.Eventually(func() string { return reasonOf(t, r.conn) }).WithTimeout(timeout).Should(Equal(string(rediserror.ReasonUnreachable)))
	r.Eventually(func() bool {
		_, err := readLength(t.Context(), r.conn)
		return rediserror.Classify(err).Busy()
	}).WithTimeout(timeout).Should(BeFalse())
	r.Expect(r.server.Resume()).To(Succeed())
	r.Expect(length(t, r.conn)).To(BeZero())
	r.Expect(r.inUse()).To(Equal("first"))

	r.acl(">not yet")
	r.Eventually(r.inUse).WithTimeout(timeout).Should(Equal("not yet"))
}

// What is refused may be no more than what the Secret held before.
func TestASecretIsReadAtOnceWhenItsPasswordIsRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	refused := rediserror.Classify(replyError("WRONGPASS invalid username-password pair"))
	pool := NewPool(Options{})
	down := func(e redisaccess.Endpoint) *peer {
		used := pool.newPeer(e)
		used.markDown(used.access, refused)
		return used
	}
	const rest = time.Minute
	named := down(redisaccess.Endpoint{Address: somewhere.Address, Password: password, Namespace: namespace})
	g.Expect(named.probeDelay(rest)).To(BeZero())
	named.beginProbe()
	g.Expect(named.probeDelay(rest)).To(BeNumerically(">=", firstDelay), "only once")
	g.Expect(down(somewhere).probeDelay(rest)).To(Equal(rest), "there is no Secret to read")
}
