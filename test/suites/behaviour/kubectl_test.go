// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// The second half is the control of the first: with the cure applied, the
// condition that was waited for is gone.
func TestDescribeTellsWhatIsWrongAndWaitWhenItIsCured(t *testing.T) {
	t.Parallel()
	s := newWitnessedScaledJob(t)
	negative := int32(-1)
	s.create(onceByEvents, func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.BackoffLimit = &negative
	})
	object := "scaledjob/" + s.Name
	s.kubectl("wait", object, "--for=condition=Ready=false", "--timeout=60s")
	s.Eventually(func() string { return s.kubectl("describe", object) }).Should(And(
		ContainSubstring("spec.backoffLimit: "),
		MatchRegexp(`(?s)Events:.*Warning +TemplateRejected`)))

	s.edit(map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"backoffLimit": 0}}})
	s.kubectl("wait", object, "--for=condition=TemplateValid", "--timeout=60s")
	s.kubectl("wait", object, "--for=condition=Ready", "--timeout=60s")
	s.Expect(s.kubectl("describe", object)).To(MatchRegexp(`Reason: +Accepted`))
}

func TestGetShowsTheStateOfAScaledJob(t *testing.T) {
	t.Parallel()
	s := newWitnessedScaledJob(t)
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
