// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/leadership"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// These tests do not run in parallel: the client library stores the flag kubeconfig in a global variable.
func TestParseOptions(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer

	parse := func(args ...string) options {
		parsed := must.Get(parseOptions(args, &out))(g)
		parsed.zap = options{}.zap // It has functions.
		return parsed
	}
	g.Expect(parse()).To(Equal(options{
		metricsAddress: "0", metricsSecure: true, metricsQueues: true, probeAddress: ":8081", profileAddress: "0",
		leaderElectionID: "scaledjob-operator.batch.miracle.dev",
		election:         leadership.Timing{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
		workers:          32, fallbackInterval: 5 * time.Second, serversPerNamespace: 64, connectionsPerServer: 6,
	}))

	// The flags of the shipped Deployment, and others.
	g.Expect(parse(
		"--leader-elect", "--metrics-bind-address=:8443", "--health-probe-bind-address=:8082",
		"--leader-elect-lease-duration=1m", "--leader-elect-renew-deadline=40s", "--leader-elect-retry-period=1500ms",
		"--leader-election-namespace=ops", "--leader-election-id=b.batch.miracle.dev", "--watch-namespaces=a, b,a,", "--max-concurrent-reconciles=4",
		"--metrics-secure=false", "--configure-redis-notifications", "--polling-fallback-interval=0", "--zap-log-level=debug", "--zap-encoder=json",
		"--redis-allow-cidrs=10.0.0.0/8, fd00::/8", "--redis-allow-cidrs=::ffff:127.0.0.1", "--redis-deny-cidrs=0.0.0.0/0,::/0",
		"--allow-insecure-redis-tls", "--max-redis-servers-per-namespace=0", "--redis-connections-per-server=12",
	)).To(Equal(options{
		leaderElect: true, metricsAddress: ":8443", metricsQueues: true, probeAddress: ":8082", profileAddress: "0",
		election:                leadership.Timing{LeaseDuration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: 1500 * time.Millisecond},
		leaderElectionNamespace: "ops", leaderElectionID: "b.batch.miracle.dev", namespaces: []string{"a", "b"}, workers: 4,
		configureNotifications: true, allowInsecureTLS: true, connectionsPerServer: 12,
		redisAllow: []netip.Prefix{
			netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("127.0.0.1/32"),
		},
		redisDeny: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
	}))
	g.Expect(out.String()).To(BeEmpty())
}

func TestParseOptionsSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no such flag":          {[]string{"--no-such-flag"}, "no-such-flag"},
		"no workers":            {[]string{"--max-concurrent-reconciles=0"}, "max-concurrent-reconciles"},
		"no name of a Lease":    {[]string{"--leader-election-id=Team_A"}, `-leader-election-id: "Team_A" is not the name of a Lease: a lowercase RFC 1123`},
		"an empty Lease name":   {[]string{"--leader-election-id="}, `-leader-election-id: "" is not the name of a Lease`},
		"no namespace":          {[]string{"--watch-namespaces=a,B_"}, `"B_" is not a namespace`},
		"a stray argument":      {[]string{"serve"}, `"serve"`},
		"negative fallback":     {[]string{"--polling-fallback-interval=-1s"}, "polling-fallback-interval"},
		"not a number":          {[]string{"--max-concurrent-reconciles=many"}, "max-concurrent-reconciles"},
		"no network":            {[]string{"--redis-deny-cidrs=10.0.0.0/8,redis"}, `"redis" is neither an address nor a prefix`},
		"not the network":       {[]string{"--redis-allow-cidrs=10.0.0.5/8"}, "write 10.0.0.0/8"},
		"negative servers":      {[]string{"--max-redis-servers-per-namespace=-1"}, "max-redis-servers-per-namespace"},
		"too few connections":   {[]string{"--redis-connections-per-server=2"}, "redis-connections-per-server"},
		"authorities over HTTP": {[]string{"--metrics-secure=false", "--metrics-client-ca-file=ca.crt"}, "metrics-client-ca-file"},
		"certificate over HTTP": {[]string{"--metrics-secure=false", "--metrics-cert-dir=certs"}, "metrics-cert-dir"},
		"profiles for all":      {[]string{"--pprof-bind-address=:6060"}, notLoopback(":6060")},
		"profiles on a network": {[]string{"--pprof-bind-address=10.0.0.1:6060"}, notLoopback("10.0.0.1:6060")},
		"profiles on a host":    {[]string{"--pprof-bind-address=localhost:6060"}, notLoopback("localhost:6060")},
		"profiles without port": {[]string{"--pprof-bind-address=127.0.0.1"}, notLoopback("127.0.0.1")},
		"profiles nowhere":      {[]string{"--pprof-bind-address="}, notLoopback("")},
		"a Lease for too short": {[]string{"--leader-elect-lease-duration=9s"}, "-leader-elect-lease-duration: must be more than 10s"},
		"no such log level":     {[]string{"--zap-log-level=loud"}, "zap-log-level"},
	} {
		g := NewWithT(t)
		var out bytes.Buffer
		_, err := parseOptions(c.args, &out)
		g.Expect(err).To(HaveOccurred(), name)
		g.Expect(out.String()).To(ContainSubstring(c.says), name)
	}
}

// notLoopback is what is said about an address for profiles.
func notLoopback(address string) string {
	return fmt.Sprintf("invalid value for flag -pprof-bind-address: %q is not a loopback address with a port, such as "+
		"127.0.0.1:6060\n", address)
}

func TestProfilesAreServedOnLoopbackAddressesOnly(t *testing.T) {
	g := NewWithT(t)
	for _, address := range []string{"0", "127.0.0.1:6060", "127.1.2.3:0", "[::1]:6060"} {
		o := must.Get(parseOptions([]string{"--pprof-bind-address=" + address}, io.Discard))(g)
		g.Expect(o.profileAddress).To(Equal(address))
	}
}

func TestParseOptionsHelps(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	_, err := parseOptions([]string{"--help"}, &out)
	g.Expect(err).To(MatchError(flag.ErrHelp))
	g.Expect(out.String()).To(ContainSubstring("-watch-namespaces"))
}
