// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestParseEndpoint(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"redis:6379":                        "redis:6379",
		"Redis.Queues.svc:06379":            "redis.queues.svc:6379",
		"redis.queues.svc.cluster.local.:1": "redis.queues.svc.cluster.local.:1",
		"my_redis-0:65535":                  "my_redis-0:65535",
		"10.0.0.7:6379":                     "10.0.0.7:6379",
		"[::1]:6379":                        "[::1]:6379",
		"[2001:DB8:0::1]:6379":              "[2001:db8::1]:6379",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			endpoint := must.Get(auth.ParseEndpoint(address))(g)
			g.Expect(endpoint).To(Equal(auth.Endpoint{Address: want}))
			g.Expect(endpoint.String()).To(Equal(want))
		})
	}
}

func TestParseEndpointRefuses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"", "redis", "[fe80::1%eth0]:6379", "redis:", ":6379", "redis:0", "redis:65536", "redis:-1", "redis:+1", "redis:http",
		"redis://redis:6379", "redis:6379/0", "/run/redis:6379", "/run/redis.sock", "unix:/run/redis.sock", "user@redis:6379",
		"redis :6379", "redis\n:6379", "redis\x00:6379", "::1:6379", "[redis]:6379", "[10.0.0.7]:6379", "rédis:6379",
	} {
		NewWithT(t).Expect(auth.ParseEndpoint(address)).Error().To(HaveOccurred(), "%q", address)
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, seed := range []string{"redis:6379", "[::1]:1", "[fe80::1%0]:6379", "unix:/s", "::", "[]:1", "1.2.3.4:5"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		endpoint, err := auth.ParseEndpoint(address)
		if err != nil {
			return
		}
		g := NewWithT(t)
		again := must.Get(auth.ParseEndpoint(endpoint.Address))(g)
		g.Expect(again).To(Equal(endpoint), "the address is normalized")
		g.Expect(endpoint.Address).NotTo(ContainSubstring("/"))
	})
}

func TestEndpointsAreToldApart(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	secured := auth.Endpoint{
		Address: "redis:6379", Username: "reader", Namespace: "team",
		Password: auth.SecretKey{Name: "redis", Key: "password"},
		TLS:      auth.TLS{Enabled: true, ServerName: "redis.example", CA: auth.SecretKey{Name: "ca", Key: "ca.crt"}},
	}
	g.Expect(secured.String()).To(Equal(
		"redis:6379 user=reader namespace=team password=redis/password tls name=redis.example ca=ca/ca.crt"))
	seen := map[string]bool{secured.String(): true}
	for _, change := range []func(*auth.Endpoint){
		func(e *auth.Endpoint) { e.Username = "other" },
		func(e *auth.Endpoint) { e.Namespace = "other" },
		func(e *auth.Endpoint) { e.Password.Key = "other" },
		func(e *auth.Endpoint) { e.TLS = auth.TLS{} },
		func(e *auth.Endpoint) { e.TLS.ServerName = "" },
		func(e *auth.Endpoint) { e.TLS.SkipVerify = true },
		func(e *auth.Endpoint) { e.TLS.CA.Name = "other" },
		func(e *auth.Endpoint) { e.TLS.Certificate = auth.SecretKey{Name: "own", Key: "tls.crt"} },
		func(e *auth.Endpoint) { e.TLS.PrivateKey = auth.SecretKey{Name: "own", Key: "tls.key"} },
	} {
		other := secured
		change(&other)
		g.Expect(seen).NotTo(HaveKey(other.String()))
		seen[other.String()] = true
	}
}
