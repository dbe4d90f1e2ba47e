// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/rediserror"
)

// What is kept of a password is a multiple of it, for each endpoint. A tenant may name many
// endpoints, and must not be able to use up the memory of the operator.
func TestAPasswordTakesLittleMemoryHoweverLongItIs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	secrets := newSecrets(map[string]string{"password": strings.Repeat("\x01<\"\\é", 1<<17)})
	pool := startReal(t, withSecrets(secrets))
	_, err := readLength(t.Context(), pool.Conn(Endpoint{Address: "127.0.0.1:1", Password: password, Namespace: namespace}, 0))
	g.Expect(rediserror.Classify(err).Reason).To(Equal(rediserror.ReasonSecretInvalid))
	pool.passwords.mu.Lock()
	defer pool.passwords.mu.Unlock()
	kept := 0
	for _, spelled := range pool.passwords.ofPeer {
		for _, each := range spelled {
			kept += len(each)
		}
	}
	g.Expect(kept).To(BeNumerically("<", 1<<20))
}

func TestALongPasswordIsFine(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	endpoint := Endpoint{Address: "127.0.0.1:1", Password: password, Namespace: namespace}
	_, err := newAccess(endpoint, values{password: strings.Repeat("x", 4<<10) + "\n"})
	g.Expect(err).NotTo(HaveOccurred(), "tokens of cloud providers have a few KiB")
}
