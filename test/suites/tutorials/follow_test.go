// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tutorials

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// reader follows a page.
type reader struct {
	*WithT

	t         *testing.T
	scaledJob string
	// commands are those that are left.
	commands []string
	folder   string
}

// shellBlock is one in a page, or in a list of a page.
var shellBlock = regexp.MustCompile("(?ms)^ *```shell\n(.*?)^ *```$")

// newReader returns one who follows a page about this ScaledJob.
func newReader(t *testing.T, page, scaledJob string) *reader {
	t.Helper()
	r := &reader{WithT: NewWithT(t), t: t, scaledJob: scaledJob, folder: t.TempDir()}
	for _, block := range shellBlock.FindAllStringSubmatch(readPage(t, page), -1) {
		for line := range strings.Lines(block[1]) {
			r.commands = append(r.commands, strings.TrimSpace(line))
		}
	}
	r.Expect(r.commands).NotTo(BeEmpty())
	runContainers(t, scaledJob)
	return r
}

// until runs the next commands, and the one that contains this text, whose output it returns.
func (r *reader) until(text string) (output string) {
	r.t.Helper()
	for len(r.commands) > 0 {
		command := r.commands[0]
		r.commands = r.commands[1:]
		output = r.run(command)
		if strings.Contains(command, text) {
			return output
		}
	}
	r.Expect(text).To(BeEmpty(), "no command of the page is left that contains this")
	return output
}

// run runs a command of a page: redis-cli on the server of the tests, and kubectl in their control plane. No controller
// of Deployments runs there, and the containers have no logs.
func (r *reader) run(command string) string {
	r.t.Helper()
	if words, isRedis := strings.CutPrefix(command, "kubectl exec --namespace=default deployment/redis -- redis-cli "); isRedis {
		return r.redis(strings.Fields(words))
	}
	words, isKubectl := strings.CutPrefix(command, "kubectl ")
	r.Expect(isKubectl).To(BeTrue(), command)
	if strings.HasPrefix(words, "logs ") || strings.HasPrefix(words, "rollout status ") {
		return ""
	}
	var args []string
	for word := range strings.FieldsSeq(words) {
		args = append(args, r.here(strings.ReplaceAll(word, "'", "")))
	}
	output, err := shared.Cluster.Kubectl(r.t.Context(), args...)
	r.Expect(err).NotTo(HaveOccurred(), command)
	return output
}

func (r *reader) redis(words []string) string {
	r.t.Helper()
	command := make([]any, len(words))
	for i, word := range words {
		command[i] = word
	}
	answer, err := shared.redis.Client().Do(r.t.Context(), command...).Result()
	r.Expect(err).NotTo(HaveOccurred(), words)
	if list, is := answer.([]any); is && len(list) == 1 {
		answer = list[0]
	}
	text, _ := answer.(string)
	return text
}

// here replaces a file by one that names the Redis server of the tests, and a folder by its path.
func (r *reader) here(word string) string {
	r.t.Helper()
	flag, path, isPath := strings.Cut(word, "=")
	if !isPath || flag != "--filename" && flag != "--from-file" {
		return word
	}
	path = filepath.Join(root, path)
	if flag == "--from-file" {
		return flag + "=" + path
	}
	content := must.Get(os.ReadFile(path))(r)
	changed := filepath.Join(r.folder, filepath.Base(path))
	text := strings.ReplaceAll(string(content), "redisAddress: "+sampleRedis+":6379", "redisAddress: "+shared.redis.Addr())
	r.Expect(os.WriteFile(changed, []byte(text), 0o600)).To(Succeed())
	return flag + "=" + changed
}

// jobs returns how many Jobs there are, and how many of them have ended how.
func (r *reader) jobs() map[string]int {
	r.t.Helper()
	var jobs batchv1.JobList
	r.Expect(shared.API.List(r.t.Context(), &jobs, client.InNamespace("default"), client.MatchingLabels{scaledjobv1.LabelScaledJob: r.scaledJob})).To(Succeed())
	ends := map[string]int{"all": len(jobs.Items)}
	for _, job := range jobs.Items {
		for _, condition := range job.Status.Conditions {
			if condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed {
				ends[string(condition.Type)]++
			}
		}
	}
	return ends
}

// field returns a field of the ScaledJob, as a jsonpath.
func (r *reader) field(path string) string {
	r.t.Helper()
	output, err := shared.Cluster.Kubectl(r.t.Context(), "get", "sjob", r.scaledJob, "--namespace=default", "--output=jsonpath={"+path+"}")
	r.Expect(err).NotTo(HaveOccurred())
	return output
}

// Both pages use one Redis server, and the first one deletes it at its end.
func TestPagesAreFollowed(t *testing.T) {
	t.Parallel()
	t.Run("first ScaledJob", func(t *testing.T) { followFirstScaledJob(newReader(t, firstScaledJob, "greetings")) })
	t.Run("reliable worker", func(t *testing.T) { followReliableWorker(newReader(t, reliableWorker, "thumbnails")) })
}

func followFirstScaledJob(r *reader) {
	r.until("first-scaledjob.yaml")
	r.Eventually(func() string { return r.field(".status.mode") }).Should(Equal("Events"))
	r.Expect(r.until("get sjob greetings")).To(MatchRegexp(`greetings +greetings, \+1 +0 +0 +0 +10 +Events +True`))
	r.until("LPUSH")
	r.Eventually(r.jobs).Should(HaveKeyWithValue("all", 3))
	r.until("logs")
	r.Eventually(r.jobs).Should(HaveKeyWithValue("Complete", 3))
	r.until(`"suspend":true`)
	r.Eventually(func() string { return r.field(`.status.conditions[?(@.type=="Ready")].reason`) }).Should(Equal(scaledjobv1.ReasonSuspended))
	r.until("Barbara")
	r.Eventually(func() string { return r.field(".status.queueDepth") }).Should(Equal("1"))
	r.Expect(r.until("describe")).To(ContainSubstring("Suspended"))
	r.Expect(r.jobs()).To(HaveKeyWithValue("all", 3))
	r.until(`"suspend":false`)
	r.Eventually(r.jobs).Should(HaveKeyWithValue("all", 4))
	r.Eventually(r.jobs).Should(HaveKeyWithValue("Complete", 4))
	r.until("delete sjob")
	r.Eventually(r.jobs).Should(HaveKeyWithValue("all", 0))
	r.until("")
}

func followReliableWorker(r *reader) {
	r.until("LPUSH")
	r.Eventually(r.jobs).Should(And(HaveKeyWithValue("Complete", 2), HaveKeyWithValue("Failed", 1), HaveKeyWithValue("all", 3)))
	r.Expect(r.until("LRANGE")).To(Equal("nonsense"))
	r.Expect(r.until("LMOVE")).To(Equal("nonsense"))
	r.Eventually(r.jobs).Should(And(HaveKeyWithValue("Failed", 2), HaveKeyWithValue("all", 4)))
}
