// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tutorials

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/redistest/rediscli"
)

// worker is a worker with a server of its own, which has its default settings.
type worker struct {
	*WithT

	t       *testing.T
	redis   *redistest.Server
	command []string
	queue   string
}

func newWorker(t *testing.T, command []string) *worker {
	t.Helper()
	server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
	return &worker{WithT: NewWithT(t), t: t, redis: server, command: command, queue: "thumbnails"}
}

// push adds messages, the oldest first.
func (w *worker) push(messages ...any) {
	w.t.Helper()
	w.Expect(w.redis.Client().LPush(w.t.Context(), w.queue, messages...).Err()).To(Succeed())
}

// list returns the messages of a list, the next one last. Its name is the end of that of the key.
func (w *worker) list(suffix string) []string {
	w.t.Helper()
	return must.Get(w.redis.Client().LRange(w.t.Context(), w.queue+suffix, 0, -1).Result())(w)
}

// keys returns all keys of the queue.
func (w *worker) keys() []string {
	w.t.Helper()
	return must.Get(w.redis.Client().Keys(w.t.Context(), w.queue+"*").Result())(w)
}

// container is a started worker.
type container struct {
	*worker

	process *exec.Cmd
	output  string // the path of a file
}

// start starts the worker of a Job as the only process of a container.
func (w *worker) start(job string, env ...string) *container {
	w.t.Helper()
	output := must.Get(os.Create(filepath.Join(w.t.TempDir(), "output")))(w)
	defer func() { _ = output.Close() }()
	process := exec.CommandContext(w.t.Context(), w.command[0], w.command[1:]...)
	process.Env = append(os.Environ(), "PATH="+rediscli.Folder(w.t)+":"+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0",
		"REDIS="+w.redis.Addr(), "QUEUE="+w.queue, "JOB="+job)
	process.Env = append(process.Env, env...)
	process.Stdout, process.Stderr = output, os.Stderr
	// As in a container, all that it has started dies with it.
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	process.Cancel = func() error { return syscall.Kill(-process.Process.Pid, syscall.SIGKILL) }
	w.Expect(process.Start()).To(Succeed())
	c := &container{worker: w, process: process, output: output.Name()}
	w.t.Cleanup(func() { _ = syscall.Kill(-process.Process.Pid, syscall.SIGKILL) })
	return c
}

// processed returns the messages on which the worker has begun.
func (c *container) processed() []string {
	c.t.Helper()
	output := must.Get(os.ReadFile(c.output))(c)
	var messages []string
	for line := range strings.Lines(string(output)) {
		messages = append(messages, strings.TrimSpace(strings.TrimPrefix(line, "processing ")))
	}
	return messages
}

// at waits until the worker has begun on a message.
func (c *container) at(message string) *container {
	c.t.Helper()
	c.Eventually(c.processed).Should(ContainElement(message))
	return c
}

// terminate sends SIGTERM to the first process of the container, as Kubernetes does.
func (c *container) terminate() *container {
	c.t.Helper()
	c.Expect(c.process.Process.Signal(syscall.SIGTERM)).To(Succeed())
	return c
}

// crash kills the container.
func (c *container) crash() {
	c.t.Helper()
	c.Expect(c.process.Cancel()).To(Succeed())
	c.Expect(c.process.Wait()).To(MatchError(ContainSubstring("killed")))
}

// code waits for the worker to exit, and returns its exit code.
func (c *container) code() int {
	c.t.Helper()
	_ = c.process.Wait()
	return c.process.ProcessState.ExitCode()
}

// waits returns when the worker waits for a message, and no other one does.
func (c *container) waits() {
	c.t.Helper()
	c.Eventually(func() (string, error) { return c.redis.Client().ClientList(c.t.Context()).Result() }).
		Should(ContainSubstring("cmd=blmove"))
}
