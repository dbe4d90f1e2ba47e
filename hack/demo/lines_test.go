// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestLinesWritesALinePieceByPiece(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var out strings.Builder
	l := &lines{out: &out}

	l.piece("Redis")
	g.Expect(out.String()).To(Equal("Redis"))
	l.piece("%6.1f s", 0.1)
	l.end()
	l.line("ready")
	g.Expect(out.String()).To(Equal("Redis   0.1 s\nready\n"))
}

func TestLinesLetsProgressInterruptALine(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var out strings.Builder
	l := &lines{out: &out}

	l.piece("  etcd")
	_, err := fmt.Fprintln(l, "building etcd: 10s …")
	g.Expect(err).NotTo(HaveOccurred())
	l.piece("  12.0 s")
	l.end()
	g.Expect(out.String()).To(Equal("  etcd\n    building etcd: 10s …\n  etcd  12.0 s\n"))
}

func TestLinesFinishesALineBeforeTheNext(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var out strings.Builder
	l := &lines{out: &out}

	l.piece("  30 messages")
	l.line("Stopping")
	l.line("Stopped")
	g.Expect(out.String()).To(Equal("  30 messages\nStopping\nStopped\n"))
}
