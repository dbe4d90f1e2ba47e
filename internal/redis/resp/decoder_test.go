// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestBoundsAccept(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]string{
		"simple replies":  "+OK\r\n:12\r\n-ERR no\r\n_\r\n#t\r\n,1.5\r\n(123\r\n",
		"strings":         "$5\r\nhel\r\n\r\n$0\r\n\r\n$-1\r\n=5\r\ntxt:x\r\n",
		"arrays":          "*2\r\n:1\r\n*1\r\n$1\r\nx\r\n*0\r\n*-1\r\n",
		"a map":           "%1\r\n+a\r\n*2\r\n:1\r\n:2\r\n",
		"an empty map":    "%0\r\n~0\r\n",
		"a push":          ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nlpush\r\n",
		"attributes":      "|1\r\n+a\r\n:1\r\n+OK\r\n*1\r\n|1\r\n+a\r\n:1\r\n+OK\r\n|0\r\n+OK\r\n",
		"newlines inside": "$4\r\n\n\n\n\n\r\n+OK\r\n",
		"many replies":    strings.Repeat("$100000\r\n"+strings.Repeat("x", 100000)+"\r\n", 50),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			for _, step := range []int{1, 2, 3, 7, 1000, len(stream)} {
				if len(stream) > 10000*step {
					continue // too slow
				}
				var b decoder
				g.Expect(feed(&b, stream, step)).To(Succeed())
				g.Expect(b.open).To(BeEmpty(), "all replies are complete")
				g.Expect(b.skip).To(BeZero())
				g.Expect(b.size).To(BeZero())
			}
		})
	}
}

func TestBoundsRefuse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stream string
		want   error
	}{
		"HTTP":                 {"HTTP/1.1 400 Bad Request\r\n", errNotRESP},
		"an empty line":        {"\r\n", ErrMalformed},
		"a length of letters":  {"$abc\r\n", ErrMalformed},
		"a streamed string":    {"$?\r\n", ErrMalformed},
		"an overflow":          {"*99999999999999999999\r\n", ErrMalformed},
		"a large string":       {"$1048577\r\n", ErrTooLarge},
		"a huge string":        {"$9223372036854775807\r\n", ErrTooLarge},
		"a large array":        {"*65537\r\n", ErrTooLarge},
		"a large map":          {"%65537\r\n", ErrTooLarge},
		"a huge array":         {"*9223372036854775807\r\n", ErrTooLarge},
		"a huge map":           {"%9223372036854775807\r\n", ErrTooLarge},
		"a huge set":           {"~4294967296\r\n", ErrTooLarge},
		"a huge push":          {">4294967296\r\n", ErrTooLarge},
		"huge attributes":      {"|9223372036854775807\r\n", ErrTooLarge},
		"huge in attributes":   {"|1\r\n+a\r\n$4294967296\r\n", ErrTooLarge},
		"a huge error":         {"!4294967296\r\n", ErrTooLarge},
		"a huge text":          {"=4294967296\r\n", ErrTooLarge},
		"a thousand deep":      {strings.Repeat("*1\r\n~1\r\n%1\r\n+a\r\n>1\r\n|1\r\n+a\r\n", 200), ErrTooLarge},
		"keys in keys of maps": {strings.Repeat("%1\r\n", 1000), ErrTooLarge},
		"depth":                {strings.Repeat("*1\r\n", maxDepth+1), ErrTooLarge},
		"attributes, endless":  {strings.Repeat("|0\r\n", maxDepth+1), ErrTooLarge},
		"a line without end":   {"-" + strings.Repeat("x", maxLineBytes), ErrTooLarge},
		"arrays in arrays":     {"*5\r\n" + strings.Repeat("*65536\r\n"+strings.Repeat("_\r\n", 65536), 5), ErrTooLarge},
		"strings without end":  {"*65536\r\n" + strings.Repeat("$1000000\r\n"+strings.Repeat("x", 1000000)+"\r\n", 5), ErrTooLarge},
		"bad inside a map":     {"%1\r\n+a\r\nx\r\n", ErrMalformed},
		"bad after a reply":    {"+OK\r\nx\r\n", ErrMalformed},
		"a negative attribute": {"|-9223372036854775808\r\nx\r\n", ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			for _, step := range []int{1, 3, 1000, len(test.stream)} {
				if len(test.stream) > 10000*step {
					continue // too slow
				}
				var b decoder
				g.Expect(feed(&b, test.stream, step)).To(MatchError(test.want))
			}
		})
	}
}

func TestBoundsOfMessages(t *testing.T) {
	t.Parallel()
	message := func(payload int) string {
		return fmt.Sprintf(">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%s\r\n", payload, strings.Repeat("x", payload))
	}
	for name, test := range map[string]struct {
		stream string
		want   error
	}{
		"a message about a long key": {strings.Repeat(message(5<<10), 10), nil},
		"a large message":            {message(maxMessageBytes - 10), ErrTooLarge},
		"a large string announced":   {"$16385\r\n", ErrTooLarge},
		"a large array announced":    {"*5462\r\n", ErrTooLarge},
		"arrays in arrays announced": {strings.Repeat("*2000\r\n", 3), ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			b := decoder{most: maxMessageBytes}
			if test.want == nil {
				g.Expect(feed(&b, test.stream, 1000)).To(Succeed())
			} else {
				g.Expect(feed(&b, test.stream, 1000)).To(MatchError(test.want))
			}
		})
	}
}

// What is announced takes no memory until it arrives, neither for a guard nor where replies are decoded.
func TestAnnouncedLengthsTakeNoMemory(t *testing.T) {
	t.Parallel()
	for name, announced := range map[string]string{
		"a string": "$1048576\r\n", "an array": "*65536\r\n", "a map": "%65536\r\n", "attributes": "|65536\r\n", "a push": ">65536\r\n",
		"in each other": strings.Repeat("*30000\r\n", maxDepth),
	} {
		for _, keep := range []bool{false, true} {
			g := NewWithT(t)
			b := decoder{keep: keep}
			g.Expect(b.check([]byte(announced))).To(Succeed(), name)
			g.Expect(cap(b.text)).To(BeZero(), name)
			g.Expect(cap(b.open)).To(BeNumerically("<=", maxDepth), name)
			for _, each := range b.open {
				g.Expect(cap(each.elements)).To(BeZero(), name)
			}
		}
	}
}

func TestBoundsRememberAnOnlyError(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var b decoder
	g.Expect(b.check([]byte("-ERR max number"))).To(Succeed())
	g.Expect(b.onlyError()).To(BeNil())
	g.Expect(b.check([]byte(" of clients\r\n"))).To(Succeed())
	g.Expect(b.onlyError()).To(HaveValue(Equal("ERR max number of clients")))
	g.Expect(b.check([]byte(":1\r\n"))).To(Succeed())
	g.Expect(b.onlyError()).To(BeNil())
}

// FuzzBounds checks that the limits hold, and that they do not depend on how the stream is split.
func FuzzBounds(f *testing.F) {
	f.Add("+OK\r\n*2\r\n$1\r\nx\r\n:1\r\n", 3)
	f.Add("|1\r\n%1\r\n~1\r\n>1\r\n", 1)
	f.Add("$-1\r\n*-1\r\n-ERR\r\n", 2)
	f.Fuzz(func(t *testing.T, stream string, step int) {
		g := NewWithT(t)
		var whole, parts decoder
		errWhole, errParts := feed(&whole, stream, max(len(stream), 1)), feed(&parts, stream, max(step, 1))
		g.Expect(errParts == nil).To(Equal(errWhole == nil))
		g.Expect(len(whole.open)).To(BeNumerically("<=", maxDepth))
		g.Expect(whole.skip).To(BeNumerically("<=", maxStringBytes+2))
		g.Expect(len(whole.line)).To(BeNumerically("<=", max(maxLineBytes, len(stream))))
	})
}

// feed passes a stream to a decoder in pieces of step bytes.
func feed(b *decoder, stream string, step int) error {
	for len(stream) > 0 {
		n := min(step, len(stream))
		if err := b.check([]byte(stream[:n])); err != nil {
			return err
		}
		stream = stream[n:]
	}
	return nil
}
