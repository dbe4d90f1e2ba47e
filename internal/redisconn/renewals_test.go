// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redisaccess"
)

// Servers that let nobody in hold up each look at what their Secrets hold, and must not hold up
// that of others.
func TestSlowServersHoldUpNoRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var mu sync.Mutex
		tried := map[string]bool{}
		hang := func(ctx context.Context, _, address string) (net.Conn, error) {
			mu.Lock()
			tried[address] = true
			mu.Unlock()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		pool := start(t, hang, withSecrets(newSecrets(map[string]string{"password": "second"})))
		before := redisaccess.NewKeyring(newSecrets(map[string]string{"password": "first"}), false)
		const many = 400
		for i := range many {
			endpoint := numbered(i)
			endpoint.Password, endpoint.Namespace = password, namespace
			used, err := pool.acquire(endpoint)
			g.Expect(err).NotTo(HaveOccurred())
			defer pool.release(used)
			first, cause := before.Load(t.Context(), endpoint)
			g.Expect(cause).To(BeNil())
			used.use(first)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		found := len(tried)
		mu.Unlock()
		g.Expect(found).To(Equal(many), "within a minute")
	})
}
