// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package dialguard_test

import (
	"context"
	"net"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/dialguard"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestWhatIsAlwaysRefused(t *testing.T) {
	t.Parallel()
	everything := prefixes(t, "0.0.0.0/0,::/0")
	for address, why := range map[string]string{
		"169.254.169.254":    "link-local",
		"169.254.170.2":      "link-local",
		"169.254.0.1":        "link-local",
		"fe80::1":            "link-local",
		"fe80::1%eth0":       "link-local",
		"febf:ffff::1":       "link-local",
		"fe80::a9fe:a9fe":    "link-local",
		"224.0.0.1":          "multicast",
		"239.255.255.255":    "multicast",
		"ff02::1":            "multicast",
		"ff0e::1%1":          "multicast",
		"0.0.0.0":            "unspecified",
		"0.1.2.3":            "unspecified",
		"::":                 "unspecified",
		"::%lo":              "unspecified",
		"255.255.255.255":    "broadcast",
		"100.100.100.200":    "metadata",
		"168.63.129.16":      "metadata",
		"192.0.0.192":        "metadata",
		"fd00:ec2::254":      "metadata",
		"fd00:ec2::254%eth0": "metadata",
		"fd00:ec2::23":       "metadata",
		"fd20:ce::254":       "metadata",
		"fd00:c1::a9fe:a9fe": "metadata",
		"fd00:42::42":        "metadata",

		// IPv4-mapped.
		"::ffff:169.254.169.254":      "link-local",
		"::ffff:169.254.169.254%eth0": "link-local",
		"::ffff:100.100.100.200":      "metadata",
		"::ffff:0.0.0.0":              "unspecified",

		// IPv4-compatible.
		"::169.254.169.254": "link-local",
		"::2":               "unspecified",

		// IPv4-translated.
		"::ffff:0:169.254.169.254": "link-local",

		// NAT64.
		"64:ff9b::169.254.169.254": "link-local",
		"64:ff9b::a9fe:a9fe%eth0":  "link-local",
		"64:ff9b::168.63.129.16":   "metadata",
		"64:ff9b::":                "unspecified",

		// NAT64 with the local-use prefix.
		"64:ff9b:1::169.254.169.254":      "link-local",
		"64:ff9b:1:7:0:5:169.254.169.254": "link-local",
		"64:ff9b:1:a9fe:a9:fe00::":        "link-local",
		"64:ff9b:1:12a9:fe:a9fe::":        "link-local",
		"64:ff9b:1:12:a9:fea9:fe00:0":     "link-local",
		"64:ff9b:1::":                     "unspecified",

		// 6to4.
		"2002:a9fe:a9fe::1":                  "link-local",
		"2002:6464:64c8::":                   "metadata",
		"2002:808:808::5efe:169.254.169.254": "link-local",

		// Teredo.
		"2001:0:a9fe:a9fe:0:1:f7f7:f7f7": "link-local",
		"2001:0:808:808:0:1:5601:5601":   "link-local",

		// ISATAP.
		"2001:db8::5efe:169.254.169.254":          "link-local",
		"2001:db8::200:5efe:169.254.169.254":      "link-local",
		"fd12:3456:789a:1:0:5efe:100.100.100.200": "metadata",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			expectDenied(g, control(dialguard.Policy{}, address), why)
			expectDenied(g, control(dialguard.Policy{Allow: everything}, address), why)
		})
	}
}

func TestWhatMayBeConnectedTo(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"10.0.0.5", "172.16.1.1", "192.168.1.1", "100.64.0.1", "198.51.100.7", "240.0.0.1", "8.8.8.8", "192.0.0.191", "100.100.100.201",
		"127.0.0.1", "::1", "::1%lo",
		"fd00::5", "fd00:ec3::254", "fd12:3456::1", "2001:db8::1", "2606:4700::1111", "2001:db8::1%eth0",
		"::ffff:10.0.0.5", "::ffff:0:10.0.0.5", "64:ff9b::10.0.0.5", "64:ff9b:1::10.0.0.5", "64:ff9b:1:5::10.0.0.5",
		"64:ff9b:1:a00:0:500::", "2002:a00:5::1", "2001:0:808:808:0:1:f5ff:fffa", "2001:db8::5efe:10.0.0.5",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(control(dialguard.Policy{}, address)).To(Succeed())
		})
	}
}

func TestAllowWinsOverDeny(t *testing.T) {
	t.Parallel()
	policy := dialguard.Policy{
		Allow:          prefixes(t, "10.1.0.0/16,fd00:1::/32,::ffff:192.168.7.0/120,64:ff9b::/96,127.0.0.2"),
		Deny:           prefixes(t, "0.0.0.0/0,::/0"),
		RefuseLoopback: true,
	}
	for _, address := range []string{
		"10.1.2.3", "::ffff:10.1.2.3", "fd00:1::5", "fd00:1::5%eth0", "192.168.7.1", "64:ff9b::10.1.2.3", "127.0.0.2",
	} {
		NewWithT(t).Expect(control(policy, address)).To(Succeed(), address)
	}
	for _, address := range []string{
		"10.2.2.3", "::ffff:10.2.2.3", "fd00:2::5", "192.168.8.1", "8.8.8.8", "2001:db8::1", "127.0.0.1", "::1",
		// It is not enough that only one of the two is allowed: anyone can embed an allowed IPv4 address in an IPv6
		// address.
		"64:ff9b::10.2.2.3", "2001:db8::5efe:10.1.2.3", "2002:a01:203::1",
	} {
		expectDenied(NewWithT(t), control(policy, address), "denied")
	}
}

func TestWhatIsDeniedIsDeniedInEveryForm(t *testing.T) {
	t.Parallel()
	policy := dialguard.Policy{Deny: prefixes(t, "10.96.0.1,fd00:96::/32")}
	for _, address := range []string{"10.96.0.1", "::ffff:10.96.0.1", "::10.96.0.1", "64:ff9b::10.96.0.1", "2002:a60:1::", "fd00:96::1", "fd00:96::1%eth0"} {
		expectDenied(NewWithT(t), control(policy, address), "denied")
	}
	NewWithT(t).Expect(control(policy, "10.96.0.2")).To(Succeed())
}

func TestLoopbackIsRefusedInAPod(t *testing.T) {
	t.Parallel()
	inPod := dialguard.Policy{RefuseLoopback: true}
	for _, address := range []string{
		"127.0.0.1", "127.255.255.254", "::1", "::1%lo", "::ffff:127.0.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::",
	} {
		expectDenied(NewWithT(t), control(inPod, address), "loopback")
	}
	sidecar := dialguard.Policy{RefuseLoopback: true, Allow: prefixes(t, "127.0.0.1,::1")}
	NewWithT(t).Expect(control(sidecar, "127.0.0.1")).To(Succeed())
	NewWithT(t).Expect(control(sidecar, "::1")).To(Succeed())
	expectDenied(NewWithT(t), control(sidecar, "127.0.0.2"), "loopback")
}

func TestOnlyTCPToAnIPAddress(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var policy dialguard.Policy
	for _, network := range []string{"udp4", "udp6", "unix", "ip4", "tcp", ""} {
		expectDenied(g, policy.Control(t.Context(), network, "10.0.0.5:6379", nil), "not TCP")
	}
	for _, address := range []string{"/run/redis.sock", "redis:6379", "10.0.0.5", ":6379", "", "010.0.0.5:6379", "10.0.0.5:redis"} {
		expectDenied(g, policy.Control(t.Context(), "tcp4", address, nil), "no IP address")
	}
}

// embeddings are all formats in which an IPv6 address contains an IPv4 address.
var embeddings = map[string]func(v4 [4]byte) netip.Addr{
	"mapped":            lastBytes("::ffff:0.0.0.0"),
	"compatible":        lastBytes("::"),
	"translated":        lastBytes("::ffff:0:0.0.0.0"),
	"NAT64":             lastBytes("64:ff9b::"),
	"local NAT64":       lastBytes("64:ff9b:1::"),
	"local NAT64 /48":   at("64:ff9b:1::", 6, 7, 9, 10),
	"local NAT64 /56":   at("64:ff9b:1:100::", 7, 9, 10, 11),
	"local NAT64 /64":   at("64:ff9b:1:102::", 9, 10, 11, 12),
	"6to4":              at("2002::1", 2, 3, 4, 5),
	"Teredo server":     at("2001:0:0:0:0:1:f7f7:f7f7", 4, 5, 6, 7),
	"ISATAP":            lastBytes("2001:db8::5efe:0.0.0.0"),
	"ISATAP, universal": lastBytes("fd00:1::200:5efe:0.0.0.0"),
	"ISATAP in 6to4":    lastBytes("2002:808:808:0:0:5efe:0.0.0.0"),
	"Teredo client": func(v4 [4]byte) netip.Addr {
		return lastBytes("2001:0:808:808:0:1:0:0")([4]byte{^v4[0], ^v4[1], ^v4[2], ^v4[3]})
	},
}

// FuzzEmbeddings checks that a denied IPv4 address is denied in each format, whatever else is allowed.
func FuzzEmbeddings(f *testing.F) {
	for _, seed := range []string{"169.254.169.254", "127.0.0.1", "10.0.0.5", "100.100.100.200", "224.0.0.251", "255.255.255.255", "192.0.2.1", "198.51.100.1"} {
		address := netip.MustParseAddr(seed).As4()
		f.Add(address[:])
	}
	policy := dialguard.Policy{
		Allow:          []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("::/0")},
		Deny:           []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.0.0/16")},
		RefuseLoopback: true,
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if len(bytes) != 4 || bytes[0] == 0 { // 0.0.0.0/8 is padding in one of the forms
			return
		}
		v4 := netip.AddrFrom4([4]byte(bytes))
		if control(policy, v4.String()) == nil {
			return
		}
		for name, embed := range embeddings {
			v6 := embed(v4.As4())
			NewWithT(t).Expect(control(policy, v6.String())).NotTo(Succeed(), "%s %s in %s", name, v4, v6)
			NewWithT(t).Expect(control(policy, v6.WithZone("eth0").String())).NotTo(Succeed(), "%s %s in %s", name, v4, v6)
		}
	})
}

// control asks the policy for a connection to an address, which may have a zone.
func control(policy dialguard.Policy, address string) error {
	network := "tcp6"
	if netip.MustParseAddr(address).Is4() {
		network = "tcp4"
	}
	return policy.Control(context.Background(), network, net.JoinHostPort(address, "6379"), nil)
}

func expectDenied(g Gomega, err error, why string) {
	var denied *dialguard.DeniedError
	g.Expect(err).To(BeAssignableToTypeOf(denied))
	g.Expect(err).To(MatchError(ContainSubstring(why)))
}

func prefixes(t *testing.T, list string) []netip.Prefix {
	t.Helper()
	parsed := must.Get(dialguard.ParsePrefixes(list))(NewWithT(t))
	return parsed
}

// lastBytes replaces the last bytes of an IPv6 address by an IPv4 address.
func lastBytes(frame string) func([4]byte) netip.Addr { return at(frame, 12, 13, 14, 15) }

// at replaces bytes of an IPv6 address by those of an IPv4 address.
func at(frame string, places ...int) func([4]byte) netip.Addr {
	return func(v4 [4]byte) netip.Addr {
		bytes := netip.MustParseAddr(frame).As16()
		for i, place := range places {
			bytes[place] = v4[i]
		}
		return netip.AddrFrom16(bytes)
	}
}
