// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest/rediscli"
)

const (
	samples       = "../../../config/samples"
	kustomization = "kustomization.yaml"
)

// sampleFiles are the names of all samples.
func sampleFiles(g Gomega) []string {
	paths := must.Get(filepath.Glob(filepath.Join(samples, "*.y*ml")))(g)
	var names []string
	for _, path := range paths {
		if name := filepath.Base(path); name != kustomization {
			names = append(names, name)
		}
	}
	g.Expect(names).NotTo(BeEmpty())
	return names
}

// Strictly: neither an unknown field nor a warning passes.
func apply(t *testing.T, namespace string, what ...string) (objects []string, err error) {
	t.Helper()
	args := []string{"apply", "--validate=strict", "--warnings-as-errors", "--output=name", "--namespace=" + namespace}
	output, err := shared.Cluster.Kubectl(t.Context(), append(args, what...)...)
	return strings.Fields(output), err
}

// TestControlMisspeltSample is the control. The suite kueue applies the sample that needs Kueue.
func TestEverySampleIsApplied(t *testing.T) {
	t.Parallel()
	const needsKueue = "kueue.yaml"
	for _, name := range slices.DeleteFunc(sampleFiles(NewWithT(t)), func(name string) bool { return name == needsKueue }) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			namespace := newNamespace(t)
			objects := must.Get(apply(t, namespace, "--filename="+filepath.Join(samples, name)))(g)
			g.Expect(objects).NotTo(BeEmpty())
			for _, object := range objects {
				if strings.HasPrefix(object, "scaledjob.") {
					g.Expect(shared.Cluster.Kubectl(t.Context(), "wait", object,
						"--for=condition=TemplateValid", "--timeout=60s", "--namespace="+namespace)).Error().NotTo(HaveOccurred())
				}
			}
		})
	}
}

func TestSamplesAreAppliedTogether(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	content := must.Get(os.ReadFile(filepath.Join(samples, kustomization)))(g)
	var listed struct{ Resources []string }
	g.Expect(yaml.Unmarshal(content, &listed)).To(Succeed())
	// These need a Redis or a controller that is not among the samples.
	others := []string{"cluster.yaml", "kueue.yaml", "sentinel.yaml"}
	g.Expect(append(listed.Resources, others...)).To(ConsistOf(sampleFiles(g)))
	objects := must.Get(apply(t, newNamespace(t), "--kustomize="+samples))(g)
	g.Expect(len(objects)).To(BeNumerically(">=", len(listed.Resources)))
}

func TestControlMisspeltSample(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	content := must.Get(os.ReadFile(filepath.Join(samples, "minimal.yaml")))(g)
	misspelt := filepath.Join(t.TempDir(), "misspelt.yaml")
	g.Expect(os.WriteFile(misspelt, []byte(strings.ReplaceAll(string(content), "threshold:", "treshold:")), 0o600)).To(Succeed())
	_, err := apply(t, newNamespace(t), "--filename="+misspelt)
	g.Expect(err).To(MatchError(ContainSubstring(`unknown field "spec.treshold"`)))
}

// sampleScaledJob is a sample that is applied. The containers of its Jobs are run as those of a workerSample are.
type sampleScaledJob struct {
	*scaledJob
	workers *workerSample
}

// newSampleScaledJob applies the sample, with the Redis of the tests for its own.
func newSampleScaledJob(t *testing.T, file string) *sampleScaledJob {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(samples, file)))(NewWithT(t))
	return newShownScaledJob(t, string(content))
}

// newShownScaledJob applies a manifest that users are shown.
func newShownScaledJob(t *testing.T, manifest string) *sampleScaledJob {
	t.Helper()
	s := &sampleScaledJob{scaledJob: newScaledJob(t)}
	const host = "redis.default.svc.cluster.local"
	text := strings.NewReplacer(
		host+":6379", shared.redis.Addr(), host, shared.redis.Addr(), "sleep 5 #", "read -r line #", "sleep 600 #", "read -r line #",
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

// work pushes a message, waits until there are so many Jobs, and starts the container of the one that came.
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
	for name, push := range map[string][]any{
		"one-message-per-job.yaml": {"LPUSH", "emails"},
		"reliable-list.yaml":       {"LPUSH", "orders"},
		"stream-group.yaml":        {"XADD", "events", "*", "text"},
		"delayed.yaml":             {"ZADD", "reminders", "1"},
		"pop-at-start.yaml":        {"LPUSH", "videos"},
		// Those of the page about strategies.
		"invoices":     {"LPUSH", "invoices"},
		"clicks":       {"XADD", "clicks", "*", "text"},
		"transcodings": {"LPUSH", "transcodings"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *sampleScaledJob
			if strings.HasSuffix(name, ".yaml") {
				s = newSampleScaledJob(t, name)
			} else {
				s = newShownScaledJob(t, strategyManifest(t, name))
			}
			first := s.work(push, "first", 1)
			if name == "transcodings" {
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

// The control: workers that pop at the start keep the next message waiting unless the sample says Accurate.
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

// strategyManifest is the manifest of docs/how-to/choose-a-strategy.md for this key. A Pod with a readiness probe is
// not ready before makeReady.
func strategyManifest(t *testing.T, key string) string {
	t.Helper()
	g := NewWithT(t)
	page := must.Get(os.ReadFile("../../../docs/how-to/choose-a-strategy.md"))(g)
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

// A worker that goes on until the queue is empty takes the message that comes meanwhile, without another Job.
func TestManifestOfTheStrategyPageLetsAMessageWaitForItsWorker(t *testing.T) {
	t.Parallel()
	s := newShownScaledJob(t, strategyManifest(t, "thumbnails"))
	worker := s.work([]any{"LPUSH", "thumbnails"}, "first", 1)
	s.Expect(shared.redis.Client().LPush(t.Context(), "thumbnails", "second").Err()).To(Succeed())
	s.expectJobsEver(1)
	s.Expect(io.WriteString(worker.input, "\n")).Error().NotTo(HaveOccurred()) // ends the work on the first
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

// workerSample is the Job of a sample. Its containers are run by the shell of this
// machine, with redis-cli played by this program.
type workerSample struct {
	*WithT
	t     *testing.T
	job   batchv1.JobSpec
	queue string
}

// newWorkerSample reads one-message-per-job.yaml.
func newWorkerSample(t *testing.T, change *strings.Replacer) *workerSample {
	t.Helper()
	return readWorkerSample(t, "one-message-per-job.yaml", change)
}

// readWorkerSample reads a sample. What a container does as its work becomes to
// wait for a line. The replacer changes more of its script.
func readWorkerSample(t *testing.T, file string, change *strings.Replacer) *workerSample {
	t.Helper()
	w := &workerSample{WithT: NewWithT(t), t: t, queue: t.Name()}
	content := must.Get(os.ReadFile(filepath.Join(samples, file)))(w)
	var sj scaledjobv1.ScaledJob
	w.Expect(yaml.UnmarshalStrict(content, &sj)).To(Succeed())
	w.job = sj.Spec.JobTemplate.Spec
	script := &w.job.Template.Spec.Containers[0].Args[0]
	const work = "sleep 5"
	w.Expect(*script).To(ContainSubstring(work))
	*script = change.Replace(strings.Replace(*script, work, "read -r line", 1))
	return w
}

// push adds messages, the oldest first.
func (w *workerSample) push(messages ...any) {
	w.t.Helper()
	w.Expect(shared.redis.Client().LPush(w.t.Context(), w.queue, messages...).Err()).To(Succeed())
}

func (w *workerSample) messages() []string {
	w.t.Helper()
	return must.Get(shared.redis.Client().LRange(w.t.Context(), w.queue, 0, -1).Result())(w)
}

// workerContainer is one that was started.
type workerContainer struct {
	*workerSample
	process *exec.Cmd
	input   io.Writer
	message string // empty if there was none
}

// start runs the container of a Job of this name until it is at work, or has found nothing to do.
func (w *workerSample) start(job string) *workerContainer {
	w.t.Helper()
	spec := w.job.Template.Spec.Containers[0]
	command := slices.Concat(spec.Command, spec.Args)
	process := exec.CommandContext(w.t.Context(), command[0], command[1:]...)
	for _, variable := range spec.Env {
		process.Env = append(process.Env, variable.Name+"="+variable.Value)
	}
	process.Env = append(process.Env,
		"PATH="+rediscli.Folder(w.t)+":"+os.Getenv("PATH"),
		"REDIS="+shared.redis.Addr(), "QUEUE="+w.queue, "STREAM="+w.queue, "JOB="+job,
		// With the race detector, a program would else take a second to exit.
		"GORACE=atexit_sleep_ms=0",
	)
	process.Stderr = os.Stderr
	// As in a container, all that it has started dies with it.
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	process.Cancel = func() error { return syscall.Kill(-process.Process.Pid, syscall.SIGKILL) }
	input := must.Get(process.StdinPipe())(w)
	output := must.Get(process.StdoutPipe())(w)
	w.Expect(process.Start()).To(Succeed())
	line, err := bufio.NewReader(output).ReadString('\n')
	w.Expect(err).To(Or(BeNil(), MatchError(io.EOF)))
	message := strings.TrimPrefix(strings.TrimSpace(line), "working on ")
	return &workerContainer{workerSample: w, process: process, input: input, message: message}
}

// finish ends the work, and waits for the container to exit.
func (c *workerContainer) finish() {
	c.t.Helper()
	c.Expect(io.WriteString(c.input, "\n")).Error().NotTo(HaveOccurred())
	c.Expect(c.process.Wait()).To(Succeed())
}

// crash kills the container.
func (c *workerContainer) crash() {
	c.t.Helper()
	c.Expect(c.process.Cancel()).To(Succeed())
	c.Expect(c.process.Wait()).To(MatchError(ContainSubstring("killed")))
}

func TestWorkersOfTheSampleShareTheMessages(t *testing.T) {
	t.Parallel()
	w := newWorkerSample(t, strings.NewReplacer())
	w.push("first one", "second one")
	first, second := w.start("a"), w.start("b")
	w.Expect(first.message).To(Equal("first one"))
	w.Expect(second.message).To(Equal("second one"))
	w.Expect(w.messages()).To(HaveLen(2), "they count until the work is done")
	first.finish()
	w.Expect(w.messages()).To(ConsistOf(second.message))
	second.finish()
	w.Expect(w.messages()).To(BeEmpty())
	w.Expect(w.start("c").process.Wait()).To(Succeed(), "with nothing to do")
}

// The control of the one before.
func TestControlWorkersOfTheSampleWithoutLocks(t *testing.T) {
	t.Parallel()
	w := newWorkerSample(t, strings.NewReplacer(`if lock "$message"`, "if true"))
	w.push("first one", "second one")
	first, second := w.start("a"), w.start("b")
	w.Expect(first.message).To(Equal("first one"))
	w.Expect(second.message).To(Equal("first one"))
	first.crash()
	second.crash()
}

func TestCrashedWorkerOfTheSampleLeavesItsMessageToItsJob(t *testing.T) {
	t.Parallel()
	w := newWorkerSample(t, strings.NewReplacer())
	w.push("first one", "second one")
	first := w.start("a")
	first.crash()
	w.Expect(w.messages()).To(HaveLen(2))
	other, again := w.start("b"), w.start("a")
	w.Expect(other.message).To(Equal("second one"))
	w.Expect(again.message).To(Equal(first.message))
	again.finish()
	other.finish()
	w.Expect(w.messages()).To(BeEmpty())
}

func TestWorkersOfTheSampleTakeTheSameMessageAgain(t *testing.T) {
	t.Parallel()
	w := newWorkerSample(t, strings.NewReplacer())
	for range 2 {
		w.push("message")
		worker := w.start("a job each time")
		w.Expect(worker.message).To(Equal("message"))
		worker.finish()
		w.Expect(w.messages()).To(BeEmpty())
	}
	w.Expect(shared.redis.Client().Exists(t.Context(), w.queue+":lock:message").Val()).To(BeZero(), "nothing is left behind")
}

// Whoever has listed a message may come to lock it when it is done already.
func TestWorkersOfTheSampleLeaveAMessageThatIsDone(t *testing.T) {
	t.Parallel()
	stale := strings.NewReplacer(`redis LRANGE "$QUEUE" -100 -1`, `printf 'next one\nfirst one\n'`)
	w := newWorkerSample(t, stale)
	w.push("next one")
	worker := w.start("b")
	w.Expect(worker.message).To(Equal("next one"))
	w.Expect(shared.redis.Client().Exists(t.Context(), w.queue+":lock:first one").Val()).To(BeZero())
	worker.finish()
}

// A worker that outlived its lock could work on what another one has.
func TestLockOfTheSampleOutlivesItsJob(t *testing.T) {
	t.Parallel()
	w := newWorkerSample(t, strings.NewReplacer())
	w.push("message")
	worker := w.start("a")
	ttl := must.Get(shared.redis.Client().TTL(t.Context(), w.queue+":lock:message").Result())(w)
	worker.finish()
	const grace = 30 * time.Second // the default of Kubernetes
	longest := time.Duration(*w.job.ActiveDeadlineSeconds) * time.Second
	w.Expect(ttl).To(BeNumerically(">", longest+grace/2))
}

// A Job that ended at once would have come for nothing, and so would those after it.
func TestWorkersOfSamplesWaitForWhatADeadOneHad(t *testing.T) {
	t.Parallel()
	soon := strings.NewReplacer("EX 60", "EX 2", "60000", "2000")
	for file, push := range map[string]func(queue string) []any{
		"reliable-list.yaml": func(queue string) []any { return []any{"LPUSH", queue, "message"} },
		"stream-group.yaml":  func(queue string) []any { return []any{"XADD", queue, "*", "text", "message"} },
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			w := readWorkerSample(t, file, soon)
			w.Expect(shared.redis.Client().Do(t.Context(), push(w.queue)...).Err()).To(Succeed())
			first := w.start("a")
			first.crash()
			other := w.start("b")
			w.Expect(other.message).To(Equal(first.message))
			other.finish()
			w.Expect(w.start("c").process.Wait()).To(Succeed(), "with nothing to do")
		})
	}
}

// A message that kills its workers must not get new Jobs without end.
func TestReliableSampleGivesAMessageUp(t *testing.T) {
	t.Parallel()
	w := readWorkerSample(t, "reliable-list.yaml", strings.NewReplacer())
	w.push("poison")
	for range 3 {
		worker := w.start("a")
		w.Expect(worker.message).To(Equal("poison"))
		worker.crash()
	}
	last := w.start("a")
	w.Expect(last.process.Wait()).To(Succeed())
	w.Expect(shared.redis.Client().LRange(t.Context(), w.queue+":failed", 0, -1).Val()).To(Equal([]string{"poison"}))
	w.Expect(shared.redis.Client().Keys(t.Context(), w.queue+"*").Val()).To(ConsistOf(w.queue+":failed"), "nothing else is left behind")
}
