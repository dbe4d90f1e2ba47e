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
)

// slowCreates takes its time over the creates of Jobs in one namespace, as an admission webhook that is configured there does.
type slowCreates struct {
	next      http.RoundTripper
	namespace string
	delay     time.Duration
}

func (s slowCreates) RoundTrip(request *http.Request) (*http.Response, error) {
	if createsJob(request) && strings.Contains(request.URL.Path, "/"+s.namespace+"/") {
		select {
		case <-time.After(s.delay):
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
	return s.next.RoundTrip(request)
}

// A slow admission webhook of one namespace must not keep the others waiting.
func TestSlowCreatesOfOneNamespaceDoNotHoldUpAnother(t *testing.T) {
	t.Parallel()
	const crowd = 40
	g := NewWithT(t)
	slow, other, through := newNamespace(t), newNamespace(t), startProxy(t)
	through.creates.next = slowCreates{next: through.creates.next, namespace: slow, delay: 10 * time.Second}
	startOperator(t, through, []string{slow, other})
	victim := newSubject(t, other, "victim", 1, 100, func(spec *scaledjobv1.ScaledJobSpec) { spec.PollingIntervalSeconds = 3600 })
	victim.awaitSubscription(t)
	for i := range crowd {
		s := newSubject(t, slow, fmt.Sprintf("slow-%d", i), 1, 100)
		g.Expect(s.burst(t.Context(), 100)).To(Succeed())
	}
	time.Sleep(8 * time.Second) // until the first have timed out
	var longest time.Duration
	for i := range 10 {
		pushed := time.Now()
		g.Expect(victim.burst(t.Context(), 1)).To(Succeed())
		g.Expect(victim.witness.AwaitCreated(t.Context(), i+1)).To(Succeed())
		longest = max(longest, time.Since(pushed))
		t.Logf("%d: %s", i, time.Since(pushed))
		time.Sleep(time.Second)
	}
	g.Expect(longest).To(BeNumerically("<", 5*time.Second), "push to Job beside slow creates elsewhere")
}
