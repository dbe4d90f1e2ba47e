// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/cli/explain"
)

// What no flag says is as the operator has reported it.
func TestPlanBeginsWithTheStatus(t *testing.T) {
	t.Parallel()
	g, namespace := NewWithT(t), newEmails(t, "{maxReplicas: 20}")
	planned := func(args ...string) (plan explain.Plan) {
		is := run(t, append([]string{"plan", "emails", "-n", namespace, "-o", "json"}, args...)...)
		g.Expect(is.code).To(BeZero(), is.errOut)
		g.Expect(json.Unmarshal([]byte(is.out), &plan)).To(Succeed())
		return plan
	}
	g.Expect(planned()).To(And(HaveField("Outstanding", int64(47)), HaveField("Active", int64(5)), HaveField("Pending", int64(2)), HaveField("Create", BeZero())))
	g.Expect(planned("--depth", "147", "--max-replicas", "10")).To(And(HaveField("Desired", int32(10)), HaveField("Create", int64(5))))
	g.Expect(planned("--active", "1")).To(And(HaveField("Pending", int64(1)), HaveField("Create", int64(4))))

	// What the operator could not see is not 0.
	newScaledJob(t, namespace, "images", "{}", "{activeJobs: 1}")
	is := run(t, "plan", "images", "-n", namespace)
	g.Expect(is).To(Equal(answer{errOut: `error: The status does not say enough of images. Add --depth "images=N".` + "\n", code: 1}))
}
