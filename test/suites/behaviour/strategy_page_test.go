// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
)

// strategyManifest is the manifest of docs/how-to/choose-a-strategy.md for this key. A Pod with a readiness probe is not
// ready before makeReady.
func strategyManifest(t *testing.T, key string) string {
	t.Helper()
	g := NewWithT(t)
	page, err := os.ReadFile("../../../docs/how-to/choose-a-strategy.md")
	g.Expect(err).NotTo(HaveOccurred())
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if manifest := block[1]; strings.Contains(manifest, "\n  name: "+key+"\n") {
			if strings.Contains(manifest, "readinessProbe:") {
				manifest = strings.Replace(manifest, "      template:\n",
					"      template:\n        metadata: {annotations: {"+cluster.PodReadyAfter+": 1000h}}\n", 1)
			}
			return strings.ReplaceAll(manifest, "/tmp/", t.TempDir()+"/")
		}
	}
	t.Fatalf("the page has no manifest for %s", key)
	return ""
}

// The three ways in which each message has its Job: neither more nor fewer, also while others are being worked on.
func TestManifestsOfTheStrategyPageHaveAJobForEachMessage(t *testing.T) {
	t.Parallel()
	for key, push := range map[string][]any{
		"invoices":     {"LPUSH", "invoices"},
		"clicks":       {"XADD", "clicks", "*", "text"},
		"transcodings": {"LPUSH", "transcodings"},
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			s := newShownScaledJob(t, strategyManifest(t, key))
			first := s.work(push, "first", 1)
			if key == "transcodings" {
				s.makeReady() // The worker has written the file of the probe.
			}
			second := s.work(push, "second", 2)
			s.awaitResyncs()
			first.finish()
			second.finish()
			s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(BeZero())))
			s.expectJobsEver(2)
		})
	}
}

// A worker that goes on until the queue is empty takes the message that comes meanwhile, without another Job.
func TestManifestOfTheStrategyPageLetsAMessageWaitForItsWorker(t *testing.T) {
	t.Parallel()
	s := newShownScaledJob(t, strategyManifest(t, "thumbnails"))
	worker := s.work([]any{"LPUSH", "thumbnails"}, "first", 1)
	s.Expect(shared.redis.Client().LPush(t.Context(), "thumbnails", "second").Err()).To(Succeed())
	s.expectJobsEver(1)
	_, err := io.WriteString(worker.input, "\n") // ends the work on the first
	s.Expect(err).NotTo(HaveOccurred())
	worker.finish()
	s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(BeZero())))
	s.expectJobsEver(1)
}

// The control of the probe: a Pod that is ready before its worker has popped gets a Job too many.
func TestControlManifestWithoutItsProbe(t *testing.T) {
	t.Parallel()
	s := newShownScaledJob(t, strings.ReplaceAll(strings.ReplaceAll(strategyManifest(t, "transcodings"), "1000h", "0s"), "transcodings", "unprobed"))
	s.Expect(shared.redis.Client().LPush(t.Context(), "unprobed", "first").Err()).To(Succeed())
	s.Eventually(func() int { return len(s.jobs()) }).Should(BeNumerically(">", 1))
	s.Expect(shared.redis.Client().RPop(t.Context(), "unprobed").Err()).To(Succeed())
}
