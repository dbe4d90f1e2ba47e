// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"bytes"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestOutputThatIsNoTerminalGetsALineFromTimeToTime(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
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
	bubble.Run(t, func(_ *testing.T, g Gomega) {
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
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		var out bytes.Buffer
		line := start(&out, 10, "building the whole control plane")
		time.Sleep(1500 * time.Millisecond)
		line.Stop()
		g.Expect(out.String()).To(Equal("\r\x1b[Kbuilding \r\x1b[K"))
	})
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	line := Start(nil, "etcd v3")
	line.Status("compiling")
	line.Say("A sentence.")
	line.Stop()
}
