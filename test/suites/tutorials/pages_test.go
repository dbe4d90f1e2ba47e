// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tutorials

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// Pages, and the folder of those.
const (
	tutorials      = "docs/tutorials"
	firstScaledJob = tutorials + "/first-scaledjob.md"
	bullMQ         = tutorials + "/bullmq.md"
	bullMQFolder   = tutorials + "/bullmq"
	reliableWorker = tutorials + "/write-a-reliable-worker.md"
	behindSentinel = "docs/how-to/redis-sentinel.md"
	sentinelFolder = "docs/how-to/sentinel"
)

// update writes the files into the pages, with -run TestPagesShowTheFiles.
var update = flag.Bool("update", false, "Write the files into the pages.")

// shown is a file in a page: its name, and its content.
var shown = regexp.MustCompile("(?s)<summary>[^\n]*<code>([\\w.-]+)</code></summary>\n\n```\\w+\n(.*?)```\n")

// filesOf are the files that each page shows: those that other tests run or apply.
func filesOf() map[string][]string {
	files := map[string][]string{
		firstScaledJob: {tutorials + "/first-scaledjob.yaml"},
		bullMQ: {
			bullMQFolder + "/scaledjob.yaml", bullMQFolder + "/worker.mjs", bullMQFolder + "/Dockerfile", bullMQFolder + "/add.mjs",
		},
		reliableWorker: {workersFolder + "/scaledjob.yaml"},
		behindSentinel: {sentinelFolder + "/scaledjob.yaml", sentinelFolder + "/worker.go"},
	}
	for _, each := range languages {
		files[reliableWorker] = append(files[reliableWorker], workersFolder+"/"+each.file)
	}
	return files
}

func TestPagesShowTheFiles(t *testing.T) {
	t.Parallel()
	for page, files := range filesOf() {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			text := readPage(t, page)
			var found []string
			current := shown.ReplaceAllStringFunc(text, func(block string) string {
				parts := shown.FindStringSubmatch(block)
				at := slices.IndexFunc(files, func(file string) bool { return filepath.Base(file) == parts[1] })
				g.Expect(at).To(BeNumerically(">=", 0), parts[1])
				found = append(found, files[at])
				before, _, _ := strings.Cut(block, "\n"+parts[2]+"```\n")
				return before + "\n" + readPage(t, files[at]) + "```\n"
			})
			g.Expect(found).To(ConsistOf(files))
			if *update {
				g.Expect(os.WriteFile(filepath.Join(root, page), []byte(current), 0o644)).To(Succeed())
				return
			}
			g.Expect(text).To(Equal(current), "run go test ./test/suites/tutorials -run TestPagesShowTheFiles -args -update")
		})
	}
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(root, path)))(NewWithT(t))
	return string(content)
}

// numberIn returns the number that the first group of a pattern matches.
func numberIn(t *testing.T, text, pattern string) int {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(text)
	NewWithT(t).Expect(match).NotTo(BeNil(), pattern)
	return must.Get(strconv.Atoi(match[1]))(NewWithT(t))
}
