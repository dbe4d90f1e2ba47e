// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// pinned is an action at a commit, with the version of that commit for people. A tag can be moved to other code.
var pinned = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

func TestActionsOfWorkflowsArePinned(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	workflows := must.Get(filepath.Glob(filepath.Join(root, ".github/workflows/*")))(g)
	g.Expect(workflows).NotTo(BeEmpty())
	commits := map[string]string{}
	for _, workflow := range workflows {
		content := must.Get(os.ReadFile(workflow))(g)
		for _, action := range all(`(?m)\buses: (.+)$`, string(content)) {
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
