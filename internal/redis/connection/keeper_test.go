// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// hangingSecrets answers no read.
type hangingSecrets struct{}

func (hangingSecrets) Read(ctx context.Context, _, _ string) (map[string][]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// While the API server does not answer, many servers wait for their turn to read their Secrets. One that fails meanwhile is
// tried again as soon as others are.
func TestSecretsThatAreNotReadHoldUpNoProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		scripted := redistest.NewPiped(func([]string) string { return redistest.Usual })
		// The race detector of Go 1.26 crashes if several goroutines of a bubble find an expired timer when they select. The
		// ticks of keepers that have waited for their Secrets would be such timers.
		withoutSweeps := func(p *Pool) { p.timing.sweep = time.Hour }
		pool := start(t, scripted.Dial, withSecrets(hangingSecrets{}), withoutSweeps)
		const many = 400
		defer useFirstPasswords(t, pool, many)()
		time.Sleep(time.Minute)
		for endpoint, failed := range pool.servers {
			inUse, _ := failed.current()
			failed.markDown(inUse, errRefusedConnection)
			began := time.Now()
			g.Expect(pool.Conn(endpoint, 0).WaitUp(t.Context())).To(Succeed())
			g.Expect(time.Since(began)).To(BeNumerically("<", 5*time.Second))
		}
	})
}

// A server that was forgotten has no keeper any longer, also while the API server does not answer.
func TestAForgottenServerDoesNotWaitToReadSecrets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		pool := NewPool(Options{})
		for range renewalsAtOnce {
			pool.renewals <- struct{}{}
		}
		endpoint := somewhere
		endpoint.Password, endpoint.Namespace = password, namespace
		server, err := pool.acquire(endpoint)
		g.Expect(err).NotTo(HaveOccurred())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			pool.keep(t.Context(), server)
		}()
		time.Sleep(time.Hour)
		server.end()
		synctest.Wait()
		g.Expect(ended).To(BeClosed())
	})
}
