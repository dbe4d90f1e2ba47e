// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tutorials

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// Exit codes that the page explains.
const (
	succeeded     = 0
	messageFailed = 65
	terminated    = 143
)

// tasks are what a worker does, in each language.
var tasks = map[string]func(w *worker){
	"processes one message": func(w *worker) {
		w.push("0", "0.01")
		one := w.start("a")
		w.Expect(one.code()).To(Equal(succeeded))
		w.Expect(one.processed()).To(Equal([]string{"0"}))
		w.Expect(w.list("")).To(Equal([]string{"0.01"}))
		w.Expect(w.keys()).To(ConsistOf(w.queue), "nothing else is left behind")
	},
	"processes all messages": func(w *worker) {
		w.push("0", "0.01", "0.02")
		all := w.start("a", "UNTIL_EMPTY=yes")
		w.Expect(all.code()).To(Equal(succeeded))
		w.Expect(all.processed()).To(Equal([]string{"0", "0.01", "0.02"}))
		w.Expect(w.keys()).To(BeEmpty())
	},
	"succeeds without a message": func(w *worker) {
		w.Expect(w.start("a").code()).To(Equal(succeeded))
		w.Expect(w.keys()).To(BeEmpty())
	},
	// The message counts until it is done, and is the next one again.
	"puts its message back when terminated": func(w *worker) {
		w.push("600", "0")
		one := w.start("a").at("600")
		w.Expect(w.list(":processing")).To(Equal([]string{"600"}))
		w.Expect(one.terminate().code()).To(Equal(terminated))
		w.Expect(w.list("")).To(Equal([]string{"0", "600"}))
		w.Expect(w.keys()).To(ConsistOf(w.queue), "nothing else is left behind")
	},
	// A worker that waits for a message has none to put back.
	"leaves nothing behind when terminated while it waits": func(w *worker) {
		w.push("600")
		w.start("a").at("600")
		other := w.start("b")
		other.waits()
		w.Expect(other.terminate().code()).To(Equal(terminated))
		w.Expect(other.processed()).To(BeEmpty())
	},
	"keeps a failed message": func(w *worker) {
		w.push("no number", "0")
		w.Expect(w.start("a").code()).To(Equal(messageFailed))
		w.Expect(w.list(":failed")).To(Equal([]string{"no number"}))
		w.Expect(w.list("")).To(Equal([]string{"0"}))
		w.Expect(w.keys()).To(ConsistOf(w.queue, w.queue+":failed"), "nothing else is left behind")
	},
	// The next container of the same Job continues at once. Another Job waits until the lease ends.
	"takes over the message of a crashed worker": func(w *worker) {
		w.push("600")
		w.start("a").at("600").crash()
		w.start("a").at("600").crash()
		other := w.start("b")
		other.waits()
		w.Expect(other.processed()).To(BeEmpty())
		w.Expect(w.redis.Client().Del(w.t.Context(), w.queue+":processing:lease:600").Err()).To(Succeed())
		other.at("600")
	},
	"fails a message whose workers die": func(w *worker) {
		w.push("600")
		for range 3 {
			w.start("a").at("600").crash()
		}
		last := w.start("a")
		w.Expect(last.code()).To(Equal(messageFailed))
		w.Expect(last.processed()).To(BeEmpty())
		w.Expect(w.list(":failed")).To(Equal([]string{"600"}))
		w.Expect(w.keys()).To(ConsistOf(w.queue+":failed"), "nothing else is left behind")
	},
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	for name, task := range tasks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inEachLanguage(t, task)
		})
	}
}

// The control of that a terminated worker puts its message back.
func TestWorkerThatPutsNothingBackLeavesItsMessageInProgress(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	script := must.Get(os.ReadFile(filepath.Join(root, workersFolder, "worker.sh")))(g)
	const putBack = `release "$1" "$QUEUE"`
	g.Expect(string(script)).To(ContainSubstring(putBack))
	changed := filepath.Join(t.TempDir(), "worker.sh")
	g.Expect(os.WriteFile(changed, []byte(strings.Replace(string(script), putBack, ":", 1)), 0o600)).To(Succeed())
	w := newWorker(t, []string{"sh", changed})
	w.push("600")
	w.Expect(w.start("a").at("600").terminate().code()).To(Equal(terminated))
	w.Expect(w.list("")).To(BeEmpty())
	w.Expect(w.list(":processing")).To(Equal([]string{"600"}))
}

// A lease that ended while a worker ran would have two workers process one message.
func TestLeaseIsLongerThanAJobMayRun(t *testing.T) {
	t.Parallel()
	const grace = 30 // seconds, the default of Kubernetes
	manifest := readPage(t, reliableWorker)
	longest := numberIn(t, manifest, `activeDeadlineSeconds: (\d+)`) + grace
	inEachLanguage(t, func(w *worker) {
		w.push("600")
		w.start("a").at("600")
		left := must.Get(w.redis.Client().TTL(t.Context(), w.queue+":processing:lease:600").Result())(w)
		w.Expect(left.Seconds()).To(BeNumerically(">", longest))
	})
}
