// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestScreenWritesALinePieceByPiece(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var out strings.Builder
	s := &screen{out: &out}

	s.piece("Redis")
	g.Expect(out.String()).To(Equal("Redis"))
	s.piece("%6.1f s", 0.1)
	s.end()
	s.line("ready")
	g.Expect(out.String()).To(Equal("Redis   0.1 s\nready\n"))
}

func TestScreenLetsProgressInterruptALine(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var out strings.Builder
	s := &screen{out: &out}

	s.piece("  etcd")
	_, err := fmt.Fprintln(s, "building etcd: 10s …")
	g.Expect(err).NotTo(HaveOccurred())
	s.piece("  12.0 s")
	s.end()
	g.Expect(out.String()).To(Equal("  etcd\n    building etcd: 10s …\n  etcd  12.0 s\n"))
}

func TestScreenFinishesALineBeforeTheNext(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var out strings.Builder
	s := &screen{out: &out}

	s.piece("  30 messages")
	s.line("Stopping")
	s.line("Stopped")
	g.Expect(out.String()).To(Equal("  30 messages\nStopping\nStopped\n"))
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		4321 * time.Microsecond:  "4.3 ms",
		999 * time.Millisecond:   "999.0 ms",
		time.Second:              "1.0 s",
		12345 * time.Millisecond: "12.3 s",
	} {
		NewWithT(t).Expect(short(d)).To(Equal(want))
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(count(0, "Job")).To(Equal("0 Jobs"))
	g.Expect(count(1, "Job")).To(Equal("1 Job"))
	g.Expect(count(2, "Job")).To(Equal("2 Jobs"))
}
