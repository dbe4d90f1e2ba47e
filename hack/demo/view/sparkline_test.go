// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/hack/demo/board"
)

func TestSparkline(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		history []int64
		width   int
		want    string
	}{
		"nothing yet":                 {nil, 5, ""},
		"nothing is the lowest level": {[]int64{0, 0}, 5, "▁▁"},
		"little is more than nothing": {[]int64{0, 1, 1000}, 5, "▁▂█"},
		"the largest is the highest":  {[]int64{1, 2, 3, 4, 5, 6, 7}, 7, "▂▃▄▅▆▇█"},
		"the newest are shown":        {[]int64{8, 0, 4}, 2, "▁▅"},
		"unknown is a gap":            {[]int64{3, board.Unknown, 3}, 5, "█ █"},
		"all unknown":                 {[]int64{board.Unknown, board.Unknown}, 5, "  "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(sparkline(test.history, test.width)).To(Equal(test.want))
		})
	}
}
