// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tutorials

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const reliableWorker = "docs/tutorials/write-a-reliable-worker.md"

// update writes the files into the page, with -run TestThePageShowsTheFiles.
var update = flag.Bool("update", false, "Write the files into the page.")

// shown is a file in the page: its name, and its content.
var shown = regexp.MustCompile("(?s)<summary>[^\n]*<code>(\\w+\\.\\w+)</code></summary>\n\n```\\w+\n(.*?)```\n")

// The page shows the workers that the other tests run, and their manifest.
func TestThePageShowsTheFiles(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	page := readPage(t, reliableWorker)
	var files []string
	current := shown.ReplaceAllStringFunc(page, func(block string) string {
		parts := shown.FindStringSubmatch(block)
		files = append(files, parts[1])
		before, _, _ := strings.Cut(block, "\n"+parts[2]+"```\n")
		return before + "\n" + readPage(t, filepath.Join(workersFolder, parts[1])) + "```\n"
	})
	all := []string{"scaledjob.yaml"}
	for _, each := range languages {
		all = append(all, each.file)
	}
	g.Expect(files).To(ConsistOf(all))
	if *update {
		g.Expect(os.WriteFile(filepath.Join(root, reliableWorker), []byte(current), 0o644)).To(Succeed())
		return
	}
	g.Expect(page).To(Equal(current), "run go test ./test/suites/tutorials -run TestThePageShowsTheFiles -args -update")
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// numberIn returns the number that the first group of a pattern matches.
func numberIn(t *testing.T, text, pattern string) int {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(text)
	NewWithT(t).Expect(match).NotTo(BeNil(), pattern)
	number, err := strconv.Atoi(match[1])
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return number
}
