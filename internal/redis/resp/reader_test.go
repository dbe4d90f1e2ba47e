// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestReaderReturnsOneReplyAfterTheOther(t *testing.T) {
	t.Parallel()
	const stream = "+OK\r\n:12\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$4\r\na\r\nb\r\n>2\r\n$10\r\ninvalidate\r\n_\r\n-NOPERM no\r\n%1\r\n+proto\r\n:3\r\n"
	for name, from := range map[string]io.Reader{
		"at once": strings.NewReader(stream), "byte by byte": iotest.OneByteReader(strings.NewReader(stream)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			reader := NewReader(from)
			for _, want := range []any{
				"OK", int64(12), Push{"invalidate", []any{"a\r\nb"}}, Push{"invalidate", nil}, Error("NOPERM no"), []any{"proto", int64(3)},
			} {
				g.Expect(reader.Next()).To(Equal(want))
			}
			g.Expect(reader.Next()).Error().To(MatchError(io.EOF))
		})
	}
}

func TestReaderReadsLargeReplies(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	large := strings.Repeat("x", maxStringBytes)
	reader := NewReader(iotest.HalfReader(strings.NewReader("$1048576\r\n" + large + "\r\n+OK\r\n")))
	g.Expect(reader.Next()).To(Equal(large))
	g.Expect(reader.Next()).To(Equal("OK"))
}

func TestReaderRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream string
		want   error
	}{
		"another protocol":   {"HTTP/1.1 400 Bad Request\r\n", ErrMalformed},
		"a line without end": {"+" + strings.Repeat("x", 2*maxLineBytes), ErrTooLarge},
		"a huge string":      {"$1048577\r\n", ErrTooLarge},
		"a huge push":        {">65537\r\n", ErrTooLarge},
		"huge attributes":    {"|4294967296\r\n", ErrTooLarge},
		"a thousand deep":    {strings.Repeat("*1\r\n", 1000), ErrTooLarge},
		"half attributes":    {"|1\r\n+a\r\n:1\r\n", io.EOF},
		"half a push":        {">2\r\n+invalidate\r\n*1\r\n", io.EOF},
		"half a string":      {"$5\r\nab", io.EOF},
		"half a line":        {"+O", io.EOF},
		"a wrong number":     {":x\r\n", ErrMalformed},
		"a wrong line end":   {"$1\r\nabc", ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(NewReader(strings.NewReader(c.stream)).Next()).Error().To(MatchError(c.want))
		})
	}
}

func TestAppendCommand(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	command := AppendCommand(AppendCommand(nil, "LLEN", "a\r\nb"), "PING")
	g.Expect(string(command)).To(Equal("*2\r\n$4\r\nLLEN\r\n$4\r\na\r\nb\r\n*1\r\n$4\r\nPING\r\n"))
	reader := NewReader(strings.NewReader(string(command)))
	g.Expect(reader.Next()).To(Equal([]any{"LLEN", "a\r\nb"}))
	g.Expect(reader.Next()).To(Equal([]any{"PING"}))
}

// A server decides how large its messages are, and there are many servers.
func TestAReaderKeepsNoLargeBuffer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const size = 1 << 20
	reader := NewReader(strings.NewReader("$" + strconv.Itoa(size) + "\r\n" + strings.Repeat("x", size) + "\r\n+OK\r\n"))
	g.Expect(reader.Next()).To(HaveLen(size))
	g.Expect(cap(reader.replies.text)).To(BeNumerically("<=", mostKept))
	g.Expect(reader.Next()).To(Equal("OK"))
}

// FuzzReader checks that a Reader returns what Decode returns for the same bytes, and that neither panics.
func FuzzReader(f *testing.F) {
	f.Add("+OK\r\n>2\r\n+invalidate\r\n*1\r\n$1\r\nx\r\n")
	f.Add("|1\r\n+a\r\n:1\r\n%1\r\n+a\r\n_\r\n")
	f.Fuzz(func(t *testing.T, stream string) {
		g := NewWithT(t)
		reader, rest := NewReader(iotest.OneByteReader(strings.NewReader(stream))), []byte(stream)
		for {
			got, err := reader.Next()
			if err != nil {
				return
			}
			var guard decoder
			length := 0
			for guard.count == 0 {
				n := must.Get(guard.take(rest[length:]))(g)
				length += n
			}
			want := must.Get(Decode(rest[:length]))(g)
			g.Expect(fmt.Sprintf("%#v", got)).To(Equal(fmt.Sprintf("%#v", want)))
			rest = rest[length:]
		}
	})
}
