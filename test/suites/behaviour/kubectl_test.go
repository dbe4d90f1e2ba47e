// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
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

func TestGetShowsTheSourceOfEventsInUse(t *testing.T) {
	t.Parallel()
	untracked := denied("-client|tracking")
	untracked.Events = redistest.NoEvents
	for mode, options := range map[scaledjobv1.ScalingMode]redistest.Options{
		scaledjobv1.ModeEvents:   {},
		scaledjobv1.ModeTracking: {Events: redistest.NoEvents},
		scaledjobv1.ModePolling:  untracked,
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := newScaledJobOn(t, redistest.New(t, options))
			s.create(scene.Polling(scene.Never), scene.AtMost(1))
			shown := func() string {
				s.Push(1) // The first change shows that the server tells of changes.
				_, row, _ := strings.Cut(s.kubectl("get", "sjob"), "\n")
				return strings.Fields(row)[6]
			}
			s.Eventually(func() []metav1.Condition { return s.Status().Conditions }).Should(ContainElement(And(
				HaveField("Type", scaledjobv1.ConditionNotificationsActive), HaveField("Status", Not(BeEmpty())))))
			s.Eventually(shown).Should(Equal(string(mode)))
			s.Consistently(shown).Should(Equal(string(mode)))
		})
	}
}
