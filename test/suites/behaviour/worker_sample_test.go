// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest/rediscli"
)

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
	content, err := os.ReadFile(filepath.Join(samples, file))
	w.Expect(err).NotTo(HaveOccurred())
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
	messages, err := shared.redis.Client().LRange(w.t.Context(), w.queue, 0, -1).Result()
	w.Expect(err).NotTo(HaveOccurred())
	return messages
}

// workerContainer is one that was started.
type workerContainer struct {
	*workerSample
	process *exec.Cmd
	input   io.Writer
	message string // empty if there was none
}

// start runs the container of a Job of this name until it is at work, or has
// found nothing to do.
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
	input, err := process.StdinPipe()
	w.Expect(err).NotTo(HaveOccurred())
	output, err := process.StdoutPipe()
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(process.Start()).To(Succeed())
	line, err := bufio.NewReader(output).ReadString('\n')
	w.Expect(err).To(Or(BeNil(), MatchError(io.EOF)))
	message := strings.TrimPrefix(strings.TrimSpace(line), "working on ")
	return &workerContainer{workerSample: w, process: process, input: input, message: message}
}

// finish ends the work, and waits for the container to exit.
func (c *workerContainer) finish() {
	c.t.Helper()
	_, err := io.WriteString(c.input, "\n")
	c.Expect(err).NotTo(HaveOccurred())
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
	ttl, err := shared.redis.Client().TTL(t.Context(), w.queue+":lock:message").Result()
	w.Expect(err).NotTo(HaveOccurred())
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

// A message that kills its workers must not have Jobs made for it for ever.
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
