// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"math"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestSparkline(t *testing.T) {
	type row struct {
		history []int64
		width   int
		want    string
	}
	bubble.Each(t, map[string]row{
		"nothing yet":                 {nil, 5, ""},
		"nothing is the lowest level": {[]int64{0, 0}, 5, "▁▁"},
		"little is more than nothing": {[]int64{0, 1, 1000}, 5, "▁▂█"},
		"the largest is the highest":  {[]int64{1, 2, 3, 4, 5, 6, 7}, 7, "▂▃▄▅▆▇█"},
		"no number is too large":      {[]int64{math.MaxInt64, math.MaxInt64 / 7, 0}, 3, "█▂▁"},
		"the newest are shown":        {[]int64{8, 0, 4}, 2, "▁▅"},
		"unknown is a gap":            {[]int64{3, -1, 3}, 5, "█ █"},
		"all unknown":                 {[]int64{-1, -1}, 5, "  "},
	}, func(_ *testing.T, g Gomega, test row) {
		g.Expect(Sparkline(test.history, test.width)).To(Equal(test.want))
	})
}
