// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestOutputThatIsNoTerminalGetsALineFromTimeToTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var out bytes.Buffer
		line := Start(&out, "etcd v3")
		time.Sleep(20 * time.Second)
		line.Status("compiling, %d of %d packages", 3, 7)
		line.Say("A sentence.")
		time.Sleep(20 * time.Second)
		line.Stop()
		time.Sleep(time.Minute)
		g.Expect(out.String()).To(Equal("etcd v3, 15s …\nA sentence.\netcd v3: compiling, 3 of 7 packages, 30s …\n"))
	})
}

func TestTerminalGetsOneLineThatChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var out bytes.Buffer
		line := start(&out, 80, "etcd v3")
		time.Sleep(1500 * time.Millisecond)
		line.Status("downloading")
		line.Say("A sentence.")
		time.Sleep(time.Second)
		line.Stop()
		g.Expect(out.String()).To(Equal(
			"\r\x1b[Ketcd v3, 1s …" + "\r\x1b[KA sentence.\n" + "\r\x1b[Ketcd v3: downloading, 2s …" + "\r\x1b[K"))
	})
}

func TestLineIsShorterThanTheTerminalIsWide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var out bytes.Buffer
		line := start(&out, 10, "building the whole control plane")
		time.Sleep(1500 * time.Millisecond)
		line.Stop()
		g.Expect(out.String()).To(Equal("\r\x1b[Kbuilding \r\x1b[K"))
	})
}

func TestLineCountsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var out bytes.Buffer
		line := Start(&out, "etcd v3")
		line.Left(4 * time.Minute)
		time.Sleep(35 * time.Second)
		line.Left(20 * time.Second)
		time.Sleep(30 * time.Second)
		line.Stop()
		g.Expect(out.String()).To(Equal("etcd v3, 15s, about 4 min left …\netcd v3, 30s, about 4 min left …\n" +
			"etcd v3, 45s, about 10 s left …\netcd v3, 1m0s, longer than expected …\n"))
	})
}

func TestRoughly(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for duration, want := range map[time.Duration]string{
		time.Second: "10 s", 44 * time.Second: "40 s", 119 * time.Second: "120 s", 2 * time.Minute: "2 min", 500 * time.Second: "8 min",
	} {
		g.Expect(Roughly(duration)).To(Equal(want))
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	line := Start(nil, "etcd v3")
	line.Status("compiling")
	line.Say("A sentence.")
	line.Stop()
}
