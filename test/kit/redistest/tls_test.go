// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func TestAServerThatSpeaksTLS(t *testing.T) {
	t.Parallel()
	authority := certificates.NewAuthority(t)
	for name, secured := range map[string]redistest.TLS{
		"any client":           {Server: authority.Server(t, "127.0.0.1")},
		"expired":              {Server: authority.Expired(t, "127.0.0.1")},
		"clients with a proof": {Server: authority.Server(t, "127.0.0.1"), ClientCA: authority.Certificate(), Client: authority.Client(t, "tester")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server := redistest.New(t, redistest.Options{TLS: &secured, User: "tester"})
			g.Expect(server.Client().LPush(t.Context(), "emails", "hello").Err()).To(Succeed())
			g.Expect(server.Restart(t.Context())).To(Succeed())
			g.Eventually(func() error { return server.Client().Ping(t.Context()).Err() }).WithTimeout(timeout).Should(Succeed())

			plain := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
			t.Cleanup(func() { _ = plain.Close() })
			g.Expect(plain.Ping(t.Context()).Err()).NotTo(Succeed())
		})
	}
}
