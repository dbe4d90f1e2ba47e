// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const timeout = 30 * time.Second

func TestPausedServerKeepsConnectionsAndAnswersNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	g.Expect(server.Client().Ping(t.Context()).Err()).To(Succeed())

	g.Expect(server.Pause()).To(Succeed())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := server.Client().Ping(ctx).Err()
	g.Expect(err).To(MatchError(os.ErrDeadlineExceeded), "a time-out, not a closed connection")
	g.Expect(server.Resume()).To(Succeed())
	g.Eventually(func() error { return server.Client().Ping(t.Context()).Err() }).WithTimeout(timeout).Should(Succeed())
}

func TestStop(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := must.Get(redistest.Start(t.Context(), redistest.Options{}))(g)
	g.Expect(server.Pause()).To(Succeed())

	g.Expect(server.Stop()).To(Succeed())
	g.Expect(server.Stop()).To(Succeed())
	g.Expect(net.DialTimeout("tcp", server.Addr(), timeout)).Error().To(HaveOccurred())
	g.Expect(server.Restart(t.Context())).NotTo(Succeed())
}

func TestStartSaysWhyTheServerEnded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, err := redistest.Start(t.Context(), redistest.Options{Args: []string{"--no-such-setting", "1"}})
	g.Expect(err).To(MatchError(ContainSubstring("no-such-setting")))
}
