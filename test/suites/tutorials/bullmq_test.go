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

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// installBullMQ returns a folder with the programs of the page, and the packages of its image.
func installBullMQ(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	npm, err := exec.LookPath("npm")
	if err != nil {
		// The project needs no Node.js otherwise, and all else of the page is tested without it.
		t.Skip("this machine has no npm, which installs BullMQ")
	}
	folder := t.TempDir()
	g.Expect(os.CopyFS(folder, os.DirFS(filepath.Join(root, bullMQFolder)))).To(Succeed())
	packages := regexp.MustCompile(`npm install (.+)`).FindStringSubmatch(readPage(t, bullMQFolder+"/Dockerfile"))
	g.Expect(packages).NotTo(BeNil())
	arguments := append([]string{"install", "--no-audit", "--no-fund", "--ignore-scripts"}, strings.Fields(packages[1])...)
	install := exec.CommandContext(t.Context(), npm, arguments...)
	install.Dir = folder
	output, err := install.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(output))
	return folder
}

func TestWorkerOfBullMQ(t *testing.T) {
	t.Parallel()
	skip.UnderShort(t, "installs a package of npm; other tests apply the ScaledJob")
	folder := installBullMQ(t)
	program := func(t *testing.T, name string) *worker {
		t.Helper()
		w := newWorker(t, []string{"node", filepath.Join(folder, name)})
		w.queue = "previews"
		return w
	}
	added := func(t *testing.T) *worker {
		t.Helper()
		add := program(t, "add.mjs")
		add.Expect(add.start("add").code()).To(Equal(succeeded))
		add.command[1] = filepath.Join(folder, "worker.mjs")
		return add
	}
	t.Run("done", func(t *testing.T) {
		t.Parallel()
		w := added(t)
		w.Expect(w.bull("LLEN", "wait")).To(BeEquivalentTo(3))
		one := w.start("a")
		w.Eventually(func() any { return w.bull("LLEN", "active") }).Should(BeEquivalentTo(1))
		w.Expect(one.code()).To(Equal(succeeded))
		w.Expect(w.bull("ZCARD", "completed")).To(BeEquivalentTo(1))
		w.Expect(w.start("b").code()).To(Equal(succeeded))
		w.Expect(w.start("c").code()).To(Equal(messageFailed))
		w.Expect(w.bull("ZCARD", "failed")).To(BeEquivalentTo(1))
		w.Expect(w.bull("LLEN", "active")).To(BeEquivalentTo(0))
	})
	t.Run("terminated", func(t *testing.T) {
		t.Parallel()
		w := added(t)
		one := w.start("a")
		w.Eventually(one.processed).ShouldNot(BeEmpty())
		w.Expect(one.terminate().code()).To(Equal(terminated))
		w.Expect(w.bull("LLEN", "wait")).To(BeEquivalentTo(3))
		w.Expect(w.bull("LLEN", "active")).To(BeEquivalentTo(0))
	})
}

// bull returns the answer to a command about a key of the queue.
func (w *worker) bull(command, key string) any {
	w.t.Helper()
	answer, err := w.redis.Client().Do(w.t.Context(), command, "bull:"+w.queue+":"+key).Result()
	w.Expect(err).NotTo(HaveOccurred())
	return answer
}
