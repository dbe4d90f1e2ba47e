// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/inject"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// slowCreates takes its time over the creates of Jobs in one namespace, as an admission webhook that is configured
// there does.
func (p *proxy) slowCreates(namespace string, delay time.Duration) {
	p.Add(&inject.Rule{Answer: inject.Delay(delay), Match: func(request *http.Request) bool {
		return inject.CreatesJob(request) && strings.Contains(request.URL.Path, "/"+namespace+"/")
	}})
}

// A slow admission webhook of one namespace must not keep the others waiting.
func TestSlowCreatesOfOneNamespaceDoNotHoldUpAnother(t *testing.T) {
	t.Parallel()
	const crowd = 40
	g := NewWithT(t)
	slow, other, through := newNamespace(t), newNamespace(t), startProxy(t)
	through.slowCreates(slow, 10*time.Second)
	startOperator(t, through, []string{slow, other})
	victim := newScaledJob(t, other, "victim", 1, 100, func(spec *scaledjobv1.ScaledJobSpec) { spec.PollingIntervalSeconds = 3600 })
	victim.awaitSubscription(t)
	var crowded []*scaledJob
	for i := range crowd {
		s := newScaledJob(t, slow, fmt.Sprintf("slow-%d", i), 1, 100)
		g.Expect(s.PushTogether(t.Context(), 100)).To(Succeed())
		crowded = append(crowded, s)
	}
	// The creates of all these time out, and are sent again, at the same time as those of the victim.
	for i := range 10 {
		g.Expect(victim.PushTogether(t.Context(), 1)).To(Succeed())
		g.Expect(victim.Witness.AwaitCreated(t.Context(), i+1)).To(Succeed())
		g.Expect(scene.Pause(t.Context(), time.Second)).To(Succeed())
	}
	// Held up by the others, each would have waited for a minute.
	for _, s := range crowded {
		g.Expect(s.Witness.Created()).To(BeNumerically("<", 100), "Jobs of the slow ones, by the time that the other has all of its own")
	}
}
