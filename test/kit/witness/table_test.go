// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestTable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var table Table
	table.Add(Row{Fault: "kill -9", Promise: "nothing is lost", Lost: 1, Over: 2, Recovery: 1234 * time.Millisecond})
	table.Add(Row{Fault: "SIGTERM"})
	g.Expect(table.Write("")).To(Succeed())
	path := filepath.Join(t.TempDir(), "table.md")
	g.Expect(table.Write(path)).To(Succeed())
	g.Expect(os.ReadFile(path)).To(BeEquivalentTo("" +
		"| fault | promise | wake-ups lost | Jobs over | back after |\n" +
		"|---|---|---|---|---|\n" +
		"| SIGTERM |  | 0 | 0 | 0.00 s |\n" +
		"| kill -9 | nothing is lost | 1 | 2 | 1.23 s |\n"))
}
