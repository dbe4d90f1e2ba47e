// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// sampleScaledJob is a sample that is applied. The containers of its Jobs are run
// as those of a workerSample are.
type sampleScaledJob struct {
	*scaledJob
	workers *workerSample
}

// newSampleScaledJob applies the sample, with the Redis of the tests for its own.
func newSampleScaledJob(t *testing.T, file string) *sampleScaledJob {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(samples, file))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return newShownScaledJob(t, string(content))
}

// newShownScaledJob applies a manifest that users are shown.
func newShownScaledJob(t *testing.T, manifest string) *sampleScaledJob {
	t.Helper()
	s := &sampleScaledJob{scaledJob: newScaledJob(t)}
	const host = "redis.default.svc.cluster.local"
	text := strings.NewReplacer(
		host+":6379", shared.redis.Addr(), host, shared.redis.Addr(), "sleep 5 #", "read -r line #", "sleep 300 #", "read -r line #",
		"sleep 600 #", "read -r line #",
	).Replace(manifest)
	changed := filepath.Join(t.TempDir(), "shown.yaml")
	s.Expect(os.WriteFile(changed, []byte(text), 0o600)).To(Succeed())
	s.kubectl("apply", "--filename="+changed)

	var sj scaledjobv1.ScaledJob
	s.Expect(yaml.UnmarshalStrict([]byte(text), &sj)).To(Succeed())
	s.Name = sj.Name
	s.workers = &workerSample{WithT: s.WithT, t: t, job: sj.Spec.JobTemplate.Spec, queue: sj.Spec.AllQueues()[0].Name}
	return s
}

// work pushes a message, waits until there are so many Jobs, and starts the
// container of the one that came.
func (s *sampleScaledJob) work(push []any, message string, jobs int) *workerContainer {
	s.t.Helper()
	s.Expect(shared.redis.Client().Do(s.t.Context(), append(push, message)...).Err()).To(Succeed())
	s.Eventually(s.jobs).Should(HaveLen(jobs))
	worker := s.workers.start(message)
	s.Expect(worker.message).NotTo(BeEmpty())
	return worker
}

// A message that is being worked on neither keeps the next one from having a
// Job of its own, nor gets a second one itself.
func TestSamplesHaveAJobForEachMessage(t *testing.T) {
	t.Parallel()
	for file, push := range map[string][]any{
		"one-message-per-job.yaml": {"LPUSH", "emails"},
		"reliable-list.yaml":       {"LPUSH", "orders"},
		"stream-group.yaml":        {"XADD", "events", "*", "text"},
		"delayed.yaml":             {"ZADD", "reminders", "1"},
		"pop-at-start.yaml":        {"LPUSH", "videos"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s := newSampleScaledJob(t, file)
			first := s.work(push, "first", 1)
			second := s.work(push, "second", 2)
			s.awaitResyncs()
			first.finish()
			second.finish()
			s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(BeZero())))
			s.expectJobsEver(2)
		})
	}
}

// The control: workers that pop at the start keep the next message waiting
// unless the sample says Accurate.
func TestControlSampleWithoutItsStrategy(t *testing.T) {
	t.Parallel()
	s := newSampleScaledJob(t, "pop-at-start.yaml")
	s.edit(func(spec *scaledjobv1.ScaledJobSpec) {
		spec.QueueName, spec.ScalingStrategy.Type = "videos-by-default", scaledjobv1.StrategyDefault
	})
	s.Expect(shared.redis.Client().LPush(t.Context(), "videos-by-default", "first").Err()).To(Succeed())
	s.Eventually(s.jobs).Should(HaveLen(1))
	s.Expect(shared.redis.Client().RPop(t.Context(), "videos-by-default").Err()).To(Succeed())
	s.Expect(shared.redis.Client().LPush(t.Context(), "videos-by-default", "second").Err()).To(Succeed())
	s.expectJobsEver(1)
}
