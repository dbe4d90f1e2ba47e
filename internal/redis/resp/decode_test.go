// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

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
		"-ERR x\r\n":                           Error("ERR x"),
		"!5\r\nERR x\r\n":                      Error("ERR x"),
		"*2\r\n:1\r\n*1\r\n+a\r\n":             []any{int64(1), []any{"a"}},
		"~1\r\n:1\r\n":                         []any{int64(1)},
		"%1\r\n+a\r\n:1\r\n":                   []any{"a", int64(1)},
		">2\r\n+message\r\n:1\r\n":             Push{"message", int64(1)},
		"|1\r\n+a\r\n:1\r\n:2\r\n":             int64(2),
		"*2\r\n-ERR x\r\n:1\r\n":               []any{Error("ERR x"), int64(1)},
		strings.Repeat("*1\r\n", 7) + "*0\r\n": []any{[]any{[]any{[]any{[]any{[]any{[]any{[]any{}}}}}}}},
	} {
		reply, err := Decode([]byte(raw))
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
		"*1\r\n", "*-2\r\n", "|1\r\n+a\r\n+b\r\n", "?0\r\n", "%1\r\n+a\r\n", "|-1\r\n", "0-1\r\n", "+a\nb\r\n",
	} {
		NewWithT(t).Expect(Decode([]byte(raw))).Error().To(MatchError(ErrMalformed), "%q", raw)
	}
}

func TestDecodeRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"$9223372036854775807\r\n", "*9223372036854775807\r\n", "%9223372036854775807\r\n",
		strings.Repeat("*1\r\n", 8) + "*0\r\n", strings.Repeat("|0\r\n", 9) + ":1\r\n",
	} {
		NewWithT(t).Expect(Decode([]byte(raw))).Error().To(MatchError(ErrTooLarge), "%q", raw)
	}
}

func TestField(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	reply := []any{[]any{}, "first", "name", int64(1), "name", int64(2), "alone"}
	g.Expect(Field(reply, "name")).To(Equal(int64(1)))
	for _, absent := range []string{"alone", "first", ""} {
		g.Expect(Field(reply, absent)).To(BeNil())
	}
	g.Expect(Field("text", "name")).To(BeNil())
}

// FuzzDecode checks that a guard accepts exactly one reply wherever the replies are decoded.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"+OK\r\n", "$4\r\n\r\n\r\n\r\n", "=6\r\ntxt:ab\r\n", "*2\r\n-ERR x\r\n:1\r\n", "%1\r\n+a\r\n,1.5\r\n", "|1\r\n+a\r\n:1\r\n:2\r\n",
		">3\r\n+message\r\n$1\r\nc\r\n_\r\n", "*-1\r\n", "~1\r\n|0\r\n#t\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := Decode(raw); err != nil {
			return
		}
		g := NewWithT(t)
		var guard decoder
		g.Expect(guard.check(raw)).To(Succeed())
		g.Expect(guard.count).To(Equal(1))
		g.Expect(guard.size).To(BeZero(), "no further reply has begun")
	})
}
