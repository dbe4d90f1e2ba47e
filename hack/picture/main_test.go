// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestStylesLastUntilTheNext(t *testing.T) {
	t.Parallel()
	plain := style{color: defaultColor}
	NewWithT(t).Expect(parse("a\x1b[1;32mb\nc\x1b[22md\x1b[39me\x1b[0;96mf\x1b[49mg\x1b[mh\n")).To(Equal([][]span{
		{{"a", plain}, {"b", style{2, true}}},
		{
			{"c", style{2, true}},
			{"d", style{2, false}},
			{"e", plain},
			{"f", style{14, false}},
			{"g", style{14, false}},
			{"h", plain},
		},
	}))
}

func TestWordsKeepTheirColumns(t *testing.T) {
	t.Parallel()
	NewWithT(t).Expect(words("one word  two  ▁█ x")).To(Equal([]string{"one word", "  ", "two", "  ", "▁█", " x"}))
}

func TestPictureIsWellFormedAndEscaped(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var picture strings.Builder
	g.Expect(run(strings.NewReader("\x1b[31m<a> & \"b\"\x1b[39m  ▁▄█\n"), &picture)).To(Succeed())
	g.Expect(picture.String()).To(ContainSubstring("&lt;a&gt; &amp; &#34;b&#34;"))
	g.Expect(picture.String()).To(ContainSubstring(palette[1]))
	g.Expect(strings.Count(picture.String(), "<rect")).To(Equal(1 + 3))
	decoder := xml.NewDecoder(strings.NewReader(picture.String()))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		g.Expect(err).NotTo(HaveOccurred())
	}
}

func TestBarsHaveTheirHeights(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var svg strings.Builder
	drawBars(&svg, "▄█", style{color: defaultColor}, 0, 0)
	g.Expect(svg.String()).To(ContainSubstring(`height="8.0"`))
	g.Expect(svg.String()).To(ContainSubstring(`height="16.0"`))
}
