// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestLinesLetsProgressInterruptALine(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var out strings.Builder
	l := &lines{out: &out}

	l.piece("  etcd")
	g.Expect(fmt.Fprintln(l, "building etcd: 10s …")).Error().NotTo(HaveOccurred())
	l.piece("  12.0 s")
	l.end()
	g.Expect(out.String()).To(Equal("  etcd\n    building etcd: 10s …\n  etcd  12.0 s\n"))
}
