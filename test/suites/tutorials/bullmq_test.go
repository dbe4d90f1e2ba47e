// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tutorials

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// installBullMQ returns a folder with the programs of the page and the packages of npm.
func installBullMQ(t *testing.T, packages ...string) string {
	t.Helper()
	g := NewWithT(t)
	npm, err := exec.LookPath("npm")
	if err != nil {
		// The project needs no Node.js otherwise, and all else of the page is tested without it.
		t.Skip("this machine has no npm, which installs BullMQ")
	}
	folder := t.TempDir()
	g.Expect(os.CopyFS(folder, os.DirFS(filepath.Join(root, bullMQFolder)))).To(Succeed())
	arguments := append([]string{"install", "--no-audit", "--no-fund", "--ignore-scripts"}, packages...)
	install := exec.CommandContext(t.Context(), npm, arguments...)
	install.Dir = folder
	output, err := install.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(output))
	return folder
}

// packagesOfTheImage are what the image of the page installs.
func packagesOfTheImage(t *testing.T) []string {
	t.Helper()
	packages := regexp.MustCompile(`npm install (.+)`).FindStringSubmatch(readPage(t, bullMQFolder+"/Dockerfile"))
	NewWithT(t).Expect(packages).NotTo(BeNil())
	return strings.Fields(packages[1])
}

func TestWorkerOfBullMQ(t *testing.T) {
	t.Parallel()
	skip.UnderShort(t, "installs packages of npm; other tests apply the ScaledJob")
	for name, packages := range map[string][]string{
		"of the image": packagesOfTheImage(t),
		"5":            {"bullmq@5.81.5", "ioredis@5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bullMQPrograms{installBullMQ(t, packages...)}
			t.Run("done", b.done)
			t.Run("terminated", b.terminated)
			t.Run("kept in the documented keys", b.keys)
		})
	}
}

// bullMQPrograms is a folder with the programs of the page and an installed version of BullMQ.
type bullMQPrograms struct{ folder string }

// added returns a worker whose queue has three messages.
func (b bullMQPrograms) added(t *testing.T) *worker {
	t.Helper()
	w := newWorker(t, []string{"node", filepath.Join(b.folder, "add.mjs")})
	w.queue = "previews"
	w.Expect(w.start("add").code()).To(Equal(succeeded))
	w.command[1] = filepath.Join(b.folder, "worker.mjs")
	return w
}

func (b bullMQPrograms) done(t *testing.T) {
	t.Parallel()
	w := b.added(t)
	w.Expect(w.bull("LLEN", "wait")).To(BeEquivalentTo(3))
	one := w.start("a")
	w.Eventually(func() any { return w.bull("LLEN", "active") }).Should(BeEquivalentTo(1))
	w.Expect(one.code()).To(Equal(succeeded))
	w.Expect(w.bull("ZCARD", "completed")).To(BeEquivalentTo(1))
	w.Expect(w.start("b").code()).To(Equal(succeeded))
	w.Expect(w.start("c").code()).To(Equal(messageFailed))
	w.Expect(w.bull("ZCARD", "failed")).To(BeEquivalentTo(1))
	w.Expect(w.bull("LLEN", "active")).To(BeEquivalentTo(0))
}

func (b bullMQPrograms) terminated(t *testing.T) {
	t.Parallel()
	w := b.added(t)
	one := w.start("a")
	w.Eventually(one.processed).ShouldNot(BeEmpty())
	w.Expect(one.terminate().code()).To(Equal(terminated))
	w.Expect(w.bull("LLEN", "wait")).To(BeEquivalentTo(3))
	w.Expect(w.bull("LLEN", "active")).To(BeEquivalentTo(0))
}

// Messages with a priority and delayed ones are in the keys of the ScaledJob, with scores in the unit BullMQ.
func (b bullMQPrograms) keys(t *testing.T) {
	t.Parallel()
	w := b.added(t)
	script := filepath.Join(b.folder, "more.mjs")
	w.Expect(os.WriteFile(script, []byte(`import { Queue } from 'bullmq'
const [host, port] = process.env.REDIS.split(':')
const queue = new Queue(process.env.QUEUE, { connection: { host, port: Number(port) } })
await queue.add('urgent', {}, { priority: 5 })
await queue.add('later', {}, { delay: 3600000 })
await queue.close()
`), 0o600)).To(Succeed())
	w.command[1] = script
	before := time.Now()
	w.Expect(w.start("more").code()).To(Equal(succeeded))
	w.Expect(w.bull("LLEN", "wait")).To(BeEquivalentTo(3))
	w.Expect(w.bull("ZCARD", "prioritized")).To(BeEquivalentTo(1))
	delayed := must.Get(w.redis.Client().ZRangeWithScores(t.Context(), "bull:previews:delayed", 0, -1).Result())(w)
	w.Expect(delayed).To(HaveLen(1))
	due := time.UnixMilli(int64(delayed[0].Score / 4096))
	w.Expect(due).To(BeTemporally("~", before.Add(time.Hour), time.Minute))
}

// bull returns the answer to a command about a key of the queue.
func (w *worker) bull(command, key string) any {
	w.t.Helper()
	answer, err := w.redis.Client().Do(w.t.Context(), command, "bull:"+w.queue+":"+key).Result()
	w.Expect(err).NotTo(HaveOccurred())
	return answer
}
