// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

var (
	one   = Server{Endpoint: auth.Endpoint{Address: "one:6379"}}
	other = Server{Endpoint: auth.Endpoint{Address: "one:6379"}, Database: 1}
	two   = Server{Endpoint: auth.Endpoint{Address: "two:6379"}}
)

func TestATenantHasSoManyServersTogether(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	claims := NewClaims(2)
	for owner, server := range map[Owner]Server{{"team", "a"}: one, {"team", "b"}: other, {"team", "c"}: other, {"others", "a"}: two} {
		g.Expect(claims.Add(owner, server)).To(Succeed())
		g.Expect(claims.Has(owner, server)).To(BeTrue())
	}
	refused := claims.Add(Owner{"team", "d"}, two)
	g.Expect(refused).To(HaveField("Reason", failure.ReasonTooManyServers))
	g.Expect(claims.Has(Owner{"team", "d"}, two)).To(BeFalse())
	claims.Remove(Owner{"team", "b"})
	g.Expect(claims.Add(Owner{"team", "d"}, two)).NotTo(Succeed(), "c still claims what b did")
	claims.Remove(Owner{"team", "c"})
	g.Expect(claims.Add(Owner{"team", "d"}, two)).To(Succeed())
}

func TestWhatIsClaimed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	claims := NewClaims(0)
	a, b, c := Owner{"team", "a"}, Owner{"team", "b"}, Owner{"others", "a"}
	g.Expect(claims.Add(a, one)).To(Succeed())
	g.Expect(claims.Add(b, one)).To(Succeed())
	g.Expect(claims.Add(c, other)).To(Succeed())

	claims.Remove(a)
	g.Expect(claims.Claimed(one)).To(BeTrue(), "b has it too")
	given, had := claims.Remove(b)
	g.Expect(given).To(Equal(one))
	g.Expect(had).To(BeTrue())
	g.Expect(claims.Claimed(one)).To(BeFalse())
	g.Expect(claims.EndpointClaimed(one.Endpoint)).To(BeTrue(), "by another database")
	_, had = claims.Remove(b)
	g.Expect(had).To(BeFalse())
	claims.Remove(c)
	g.Expect(claims).To(Equal(NewClaims(0)), "nothing is left")
}
