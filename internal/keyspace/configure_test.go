// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// configurable is a server whose setting can be changed. It answers two reads at a time if there are two, so that both readers
// know the same value.
type configurable struct {
	pair  chan struct{}
	ended <-chan struct{}
	flags atomic.Pointer[string]
	// lost is true after a flag was removed.
	lost atomic.Bool
}

func newConfigurable(t *testing.T, flags string) *configurable {
	t.Helper()
	c := &configurable{pair: make(chan struct{}), ended: t.Context().Done()}
	c.flags.Store(&flags)
	return c
}

func (c *configurable) answer(args []string) string {
	switch {
	case args[0] != "config":
		return redistest.Usual
	case args[1] == "set":
		if before := c.flags.Swap(&args[3]); strings.Trim(*before, args[3]) != "" {
			c.lost.Store(true)
		}
		return "+OK\r\n"
	}
	now := *c.flags.Load()
	select {
	case c.pair <- struct{}{}:
	case <-c.pair:
	case <-c.ended:
	case <-time.After(time.Second / 2): // before the read times out
	}
	return fmt.Sprintf("%%1\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(verify.Parameter), verify.Parameter, len(now), now)
}

// A server has one setting for all its databases and users. Redis can only set the whole value, so two who add flags to what
// they have read could each remove those of the other.
func TestFlagsAreAddedForAllDatabasesAtOnce(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]Key{
		"of another database": {Database: 1, Name: "others", Class: verify.ClassStream},
		"of another user":     {Database: 0, Name: "others", Class: verify.ClassStream},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newConfigurable(t, "x")
				h := newPiped(t, server.answer, func(h *harness) { h.options.Configure = true })
				another := h.endpoint
				if others.Database == 0 {
					another.Username = "another"
				}
				h.Expect(h.read(t.Context(), another, "others")).To(BeZero()) // From now on it has credentials.
				h.Ensure("emails", h.endpoint, list("emails"))
				h.Ensure("others", another, others)
				h.eventuallyJudged("emails", verify.ReasonSubscribed)
				h.eventuallyJudged("others", verify.ReasonSubscribed)
				h.Expect(verify.Flags(*server.flags.Load()).Known()).To(BeEquivalentTo("Klgtx"))
				h.Expect(server.lost.Load()).To(BeFalse())
			})
		})
	}
}
