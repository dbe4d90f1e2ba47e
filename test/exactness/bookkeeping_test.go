// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// forbidding refuses requests of one method: the deletion of Jobs, or status writes.
type forbidding struct {
	next   http.RoundTripper
	method string
}

func (f forbidding) RoundTrip(request *http.Request) (*http.Response, error) {
	if _, ours := kindOf(request); ours && request.Method == f.method {
		return gatewayAnswer(request, http.StatusForbidden, nil), nil
	}
	return f.next.RoundTrip(request)
}

// What is refused for ever is old Jobs' deletion, or the report, by an admission policy. New messages have nothing to do with it.
func TestRefusedBookkeepingDoesNotHoldUpCreating(t *testing.T) {
	t.Parallel()
	for name, method := range map[string]string{"pruning": http.MethodDelete, "status": http.MethodPatch} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			namespace, through := newNamespace(t), startProxy(t)
			through.creates.next = forbidding{through.creates.next, method}
			by := startOperator(t, through, []string{namespace})
			s := newSubject(t, namespace, "kept", 1, 100)
			s.awaitSubscription(t)
			const finished = 4 // one more than are kept
			g.Expect(s.burst(t.Context(), finished)).To(Succeed())
			g.Expect(s.witness.AwaitCreated(t.Context(), finished)).To(Succeed())
			for _, job := range s.witness.Unfinished() {
				g.Expect(s.finish(t.Context(), job)).To(Succeed())
			}
			g.Eventually(metric).WithArguments(t.Context(), by, "controller_runtime_reconcile_errors_total", `controller="scaledjob"`).
				WithTimeout(timeout).Should(BeNumerically(">=", 9))
			time.Sleep(time.Second)

			pushed := time.Now()
			g.Expect(s.burst(t.Context(), 1)).To(Succeed())
			g.Expect(s.witness.AwaitCreated(t.Context(), finished+1)).To(Succeed())
			g.Expect(time.Since(pushed)).To(BeNumerically("<", 3*time.Second), "push to Job")
		})
	}
}
