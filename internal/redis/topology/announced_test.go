// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/resp"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// What follows the % of an IPv6 address may be anything, of any length. It would be part of logs and of labels of
// metrics.
func TestZonesThatServersAnnounceAreRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, zone := range []string{"\xff", "\r\n", strings.Repeat("x", 1<<20)} {
		host := "fd00::1%" + zone
		_, err := parseNodes([]any{[]any{int64(0), int64(slots - 1), []any{host, int64(6379), "a"}}}, "", "a:1")
		g.Expect(err).To(MatchError(resp.ErrMalformed), "node: %.16q", host)
		_, err = sentinels{}.parse([]any{[]any{"flags", "master", "config-epoch", "1"}, []any{host, "6379"}, nil}, "")
		g.Expect(err).To(MatchError(resp.ErrMalformed), "sentinel: %.16q", host)
	}
}

// An answer is kept of each of 512 nodes of a namespace, for some seconds. It is not parallel: it measures the memory
// of the process.
func TestAnAnswerOfANodeTakesLittleMemory(t *testing.T) {
	const most, idLength = 1 << 20, longestID
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return int64(now.HeapAlloc)
	}
	before := heap()
	// Below all limits of package resp.
	said := func() *nodes {
		ranges := make([]any, slots)
		for i := range ranges {
			id := fmt.Sprintf("%0*d", idLength, i)
			ranges[i] = []any{int64(i), int64(i), []any{"10.0.0.1", int64(6379), id}}
		}
		said := must.Get(parseNodes(ranges, "", "a:1"))(NewWithT(t))
		return said
	}()
	kept := heap() - before
	runtime.KeepAlive(said)
	NewWithT(t).Expect(kept).To(BeNumerically("<", most))
}
