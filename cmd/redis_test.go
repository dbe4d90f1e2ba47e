// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/dialguard"
)

func TestInPod(t *testing.T) {
	g := NewWithT(t)
	token := filepath.Join(t.TempDir(), "token")
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	g.Expect(inPod(token)).To(BeFalse(), "no token")
	g.Expect(os.WriteFile(token, nil, 0o600)).To(Succeed())
	g.Expect(inPod(token)).To(BeTrue())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	g.Expect(inPod(token)).To(BeFalse(), "KUBERNETES_SERVICE_HOST is not set")
}

func TestThePoolConnectsToWhatTheFlagsAllow(t *testing.T) {
	g := NewWithT(t)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = server.Close() })
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

	dial := func(options options) bool {
		conn := newPool(nil, options).Conn(auth.Endpoint{Address: server.Addr().String()}, 0)
		subscription, err := conn.OpenWire(t.Context())
		if err == nil {
			subscription.Close()
		}
		var denied *dialguard.DeniedError
		return !errors.As(err, &denied)
	}
	g.Expect(dial(options{redisDeny: loopback})).To(BeFalse())
	g.Expect(dial(options{redisDeny: loopback, redisAllow: loopback})).To(BeTrue())
}
