// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]any{
		":7\r\n":                               int64(7),
		"+OK\r\n":                              "OK",
		"$4\r\n\r\n\r\n\r\n":                   "\r\n\r\n",
		"$0\r\n\r\n":                           "",
		"=6\r\ntxt:ab\r\n":                     "ab",
		"=1\r\na\r\n":                          "",
		"$-1\r\n":                              nil,
		"*-1\r\n":                              nil,
		"_\r\n":                                nil,
		",1.5\r\n":                             1.5,
		"-ERR x\r\n":                           replyError("ERR x"),
		"!5\r\nERR x\r\n":                      replyError("ERR x"),
		"*2\r\n:1\r\n*1\r\n+a\r\n":             []any{int64(1), []any{"a"}},
		"~1\r\n:1\r\n":                         []any{int64(1)},
		"%1\r\n+a\r\n:1\r\n":                   []any{"a", int64(1)},
		"|1\r\n+a\r\n:1\r\n:2\r\n":             int64(2),
		"*2\r\n-ERR x\r\n:1\r\n":               []any{replyError("ERR x"), int64(1)},
		strings.Repeat("*1\r\n", 8) + "*0\r\n": []any{[]any{[]any{[]any{[]any{[]any{[]any{[]any{[]any{}}}}}}}}},
	} {
		reply, err := decode([]byte(raw))
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred(), "%q", raw)
		if want == nil {
			g.Expect(reply).To(BeNil(), "%q", raw)
		} else {
			g.Expect(reply).To(Equal(want), "%q", raw)
		}
	}
}

func TestDecodeRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"", "\r\n", ":\r\n", ":1", ":1.5\r\n", ":1\r\n:2\r\n", ",x\r\n", "?1\r\n", "$x\r\n", "$3\r\nab\r\n", "$1\r\nab\r\n", "$-2\r\n",
		"$9223372036854775807\r\n", "*9223372036854775807\r\n", "%9223372036854775807\r\n", "*1\r\n", "*-2\r\n", "|1\r\n+a\r\n+b\r\n",
		"?0\r\n", "%1\r\n+a\r\n", strings.Repeat("*1\r\n", 9) + "*0\r\n", strings.Repeat("|0\r\n", 9) + ":1\r\n",
	} {
		_, err := decode([]byte(raw))
		NewWithT(t).Expect(err).To(MatchError(errMalformed), "%q", raw)
	}
}

// FuzzGroups shows that no reply to the question for groups makes a negative number, or more
// waiting entries than the stream has.
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
		reply, err := decode([]byte(raw))
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
		g.Expect(is.GroupMissing).To(Or(BeFalse(), Equal(is.Waiting == 1)))
	})
}
