// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
)

// What the deployments of a namespace may take, they take together, also after one of them was claimed anew.
func TestDeploymentsOfATenantShare(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	d := New(connection.NewPool(connection.Options{}), logr.Discard())
	use := func(tenant, name string) share {
		e := auth.Endpoint{Mode: auth.ModeCluster, Address: name + ":6379"}
		g.Expect(d.Claim(tenant, name, e, 0)).To(Succeed())
		return d.followers[e].share
	}
	one := use("team", "one")
	g.Expect(use("team", "two")).To(Equal(one))
	g.Expect(use("other", "three").strangers).NotTo(BeIdenticalTo(one.strangers))

	g.Expect(one.strangers.AllowN(time.Now(), mostStrangers)).To(BeTrue())
	d.Release("team", "one")
	d.Release("team", "two")
	d.Release("other", "three")
	g.Expect(d.shares).To(HaveLen(1), "that of the team, which has used it up")
	g.Expect(use("team", "one")).To(Equal(one))
}
