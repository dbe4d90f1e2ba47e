// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
)

// pinned is an action at a commit, with the version of that commit for people. A tag can be moved to other code.
var pinned = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

func TestActionsOfWorkflowsArePinned(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	workflows := files(t, ".yaml", ".github/workflows")
	g.Expect(workflows).NotTo(BeEmpty())
	commits := map[string]string{}
	for _, workflow := range workflows {
		for _, action := range all(`(?m)\buses: (.+)$`, read(t, workflow)) {
			g.Expect(action).To(MatchRegexp(pinned.String()), workflow)
			name := regexp.MustCompile(`^[^@]+`).FindString(action)
			if first, known := commits[name]; known {
				g.Expect(action).To(Equal(first), "all workflows use the same version")
			}
			commits[name] = action
		}
	}
	g.Expect(commits).NotTo(BeEmpty())
}
