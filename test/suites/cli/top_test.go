// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/cli"
)

// Without a terminal, top prints its table once.
func TestTopSortsByBacklog(t *testing.T) {
	t.Parallel()
	g, namespace := NewWithT(t), newEmails(t, "{}")
	newScaledJob(t, namespace, "images", "{}", "{queueDepth: 812, desiredJobs: 40, mode: Events}")
	newScaledJob(t, namespace, "video", "{}", "{}")
	is := run(t, "top", "-n", namespace)
	g.Expect(is.code).To(BeZero(), is.errOut)
	g.Expect(rows(is.out)).To(HaveExactElements(
		ContainElements("NAME", "DEPTH"), ContainElements("video", "–"), ContainElements("images", "812"), ContainElements("emails", "47"),
	))
	is = run(t, "top", "-A", "-l", "team=images", "-o", "json")
	var list cli.StatusList
	g.Expect(json.Unmarshal([]byte(is.out), &list)).To(Succeed())
	g.Expect(list.Items).To(ContainElement(And(HaveField("Namespace", namespace), HaveField("Name", "images"))))
	g.Expect(run(t, "top", "-n", control.NewNamespace(t, "cli")).errOut).To(HavePrefix("There are no ScaledJobs in namespace"))
}
