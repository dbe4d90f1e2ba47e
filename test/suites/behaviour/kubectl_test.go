// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/scene"
)

func TestGetShowsTheStateOfAScaledJob(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(onceByEvents, scene.AtMost(2))
	s.PushTogether(3)
	s.Eventually(s.Status).Should(HaveField("ActiveJobs", BeEquivalentTo(2)))
	for _, fact := range []string{"condition=Ready", "jsonpath={.status.mode}=Events"} {
		s.kubectl("wait", "sjob", "--all", "--for="+fact, "--timeout=60s")
	}
	header, row, _ := strings.Cut(s.kubectl("get", "sjob"), "\n")
	s.Expect(strings.Fields(header)).To(Equal(
		[]string{"NAME", "QUEUE", "DEPTH", "ACTIVE", "DESIRED", "MAX", "MODE", "READY", "AGE"}))
	s.Expect(strings.Fields(row)[:8]).To(Equal([]string{s.Name, s.Queue, "3", "2", "2", "2", "Events", "True"}))
}
