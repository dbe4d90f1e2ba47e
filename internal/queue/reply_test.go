// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// FuzzGroups checks that no reply to XINFO GROUPS makes a negative count, or more waiting entries than the stream has.
func FuzzGroups(f *testing.F) {
	for _, seed := range []string{
		"-ERR no such key\r\n", "*0\r\n", "*1\r\n*4\r\n+name\r\n+g\r\n+pending\r\n:1\r\n", "*1\r\n*0\r\n", "_\r\n",
		"*1\r\n%3\r\n+name\r\n+g\r\n+pending\r\n:1\r\n+lag\r\n:7\r\n", "*1\r\n%2\r\n*0\r\n+g\r\n:1\r\n:1\r\n",
		"*1\r\n%4\r\n+name\r\n+g\r\n+pending\r\n:1\r\n+lag\r\n_\r\n+last-delivered-id\r\n+1-1\r\n",
		"*1\r\n%3\r\n+name\r\n+g\r\n+pending\r\n,nan\r\n+lag\r\n:-7\r\n",
	} {
		f.Add(seed, int64(5))
	}
	f.Fuzz(func(t *testing.T, raw string, length int64) {
		reply, err := resp.Decode([]byte(raw))
		if err != nil {
			return
		}
		is, err := streamReading(length, reply, "g")
		g := NewWithT(t)
		if err != nil {
			g.Expect(is).To(Equal(reading{}))
			return
		}
		g.Expect(is.Waiting).To(And(BeNumerically(">=", 0), BeNumerically("<=", length)))
		g.Expect(is.InProgress).To(BeNumerically(">=", 0))
		g.Expect(is.backlog.most).To(And(BeNumerically(">=", 0), BeNumerically("<=", length)))
		g.Expect(is.Trimmed).To(Or(BeFalse(), Equal(length == 0)))
		g.Expect(is.GroupMissing).To(Or(BeFalse(), Equal(is.Waiting == 1)))
	})
}
