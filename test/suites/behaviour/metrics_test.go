// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

func TestMetricsOfAScaledJobLastAsLongAsItDoes(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(sjtest.Polling(sjtest.Never), sjtest.AtMost(2), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.BackoffLimit = new(int32(0))
	})
	s.awaitSubscription()
	s.AwaitTemplateChecked()
	s.AwaitQuiet(time.Second) // A reconcile that is under way could see the messages before their notification comes.
	s.Push(5)
	s.Eventually(s.jobsEver).Should(Equal(2))
	s.succeed(s.job())
	s.Eventually(s.jobsEver).Should(Equal(3))
	s.fail(s.job())
	s.Eventually(s.jobsEver).Should(Equal(4))
	s.Eventually(s.series).Should(And(
		HaveKeyWithValue("scaledjob_queue_depth", 5.0),
		HaveKeyWithValue("scaledjob_active_jobs", 2.0),
		HaveKeyWithValue("scaledjob_desired_jobs", 2.0),
		HaveKeyWithValue("scaledjob_pending_jobs", BeNumerically("<=", 2)),
		HaveKeyWithValue("scaledjob_reconcile_total", BeNumerically(">=", 1)),
		HaveKeyWithValue("scaledjob_reconcile_errors_total", 0.0),
		HaveKeyWithValue("scaledjob_jobs_created_total", 4.0),
		HaveKeyWithValue("scaledjob_jobs_finished_total succeeded", 1.0),
		HaveKeyWithValue("scaledjob_jobs_finished_total failed", 1.0),
		HaveKeyWithValue("scaledjob_event_to_create_seconds_count", BeNumerically(">=", 1)),
		HaveKeyWithValue("scaledjob_creation_pausing", 0.0),
		HaveKeyWithValue("scaledjob_notifications_active", 1.0),
		HaveKeyWithValue("scaledjob_notifications_missed_total", 0.0),
		HaveKeyWithValue("scaledjob_last_read_timestamp_seconds", BeNumerically(">", 0)),
		HaveKeyWithValue("scaledjob_last_event_timestamp_seconds", BeNumerically(">", 0)),
	))
	s.Expect(s.exposed("scaledjob_queue_read_seconds_count")).To(ContainElement(BeNumerically(">=", 1)), "of all ScaledJobs")
	s.Expect(s.exposed("scaledjob_notifications_coalesced_total")).To(HaveLen(1), "of all ScaledJobs")
	s.delete(metav1.DeletePropagationBackground)
	s.awaitDeletion()
	s.Eventually(s.series).Should(BeEmpty())
	s.Consistently(s.series).Should(BeEmpty())
}

func TestMissedNotificationsAreCounted(t *testing.T) {
	t.Parallel()
	silent := redistest.Options{Events: redistest.NoEvents, Args: denied("-config").Args}
	s := newScaledJobOn(t, redistest.New(t, silent))
	s.create(sjtest.Polling(1), sjtest.AtMost(0))
	s.awaitSubscription()
	s.Eventually(func() map[string]float64 {
		s.Push(1)
		return s.series()
	}).Should(HaveKeyWithValue("scaledjob_notifications_missed_total", BeNumerically(">=", 2)))
	s.Expect(s.series()).To(HaveKeyWithValue("scaledjob_notifications_active", 0.0))
}

// series are the metrics of the ScaledJob, by name and outcome.
func (s *scaledJob) series() map[string]float64 {
	s.t.Helper()
	return s.exposed(fmt.Sprintf("namespace=%q", s.Namespace), fmt.Sprintf("scaledjob=%q", s.Name), fmt.Sprintf("queue=%q", s.Queue))
}

var (
	sampleLine = regexp.MustCompile(`^([a-z_]+)(?:{(.*)})? (\S+)$`)
	variant    = regexp.MustCompile(`(?:outcome|reason)="([a-zA-Z]+)"`)
)

// exposed are the metrics whose lines hold all of these, without the buckets of histograms.
func (s *scaledJob) exposed(all ...string) map[string]float64 {
	s.t.Helper()
	text := must.Get(operator.Get(s.t.Context(), s.Operator.MetricsURL()))(s)
	series := map[string]float64{}
	for line := range strings.Lines(text) {
		sample := sampleLine.FindStringSubmatch(strings.TrimSpace(line))
		lacks := func(part string) bool { return !strings.Contains(line, part) }
		if sample == nil || slices.ContainsFunc(all, lacks) || strings.HasSuffix(sample[1], "_bucket") {
			continue
		}
		name := sample[1]
		if found := variant.FindStringSubmatch(sample[2]); found != nil {
			name += " " + found[1]
		}
		number := must.Get(strconv.ParseFloat(sample[3], 64))(s)
		series[name] = number
	}
	return series
}
