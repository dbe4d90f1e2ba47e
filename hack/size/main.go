// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command size measures the code of each package: lines of code, the share of comments, the lines of tests to one of code, and
// how long and how branched functions are. Generated files and licence headers do not count, nor does the test harness, which is
// neither product nor test.
//
//	go run ./hack/size
package main

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	roots := os.Args[1:]
	if len(roots) == 0 {
		roots = []string{"api", "cmd", "internal"}
	}
	if err := run(os.Stdout, roots); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run measures all files below the roots, and writes a line per package and one for all together.
func run(out io.Writer, roots []string) error {
	packages, total := map[string]*size{}, &size{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			dir := filepath.Dir(path)
			if packages[dir] == nil {
				packages[dir] = &size{}
			}
			measured, err := measure(path, source)
			if err != nil {
				return err
			}
			packages[dir].add(measured)
			total.add(measured)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return write(out, packages, total)
}

func write(out io.Writer, packages map[string]*size, total *size) error {
	var names []string
	for name := range packages {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(packages[b].code, packages[a].code) })
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "package\tcode\tcomments\ttests/code\tfunctions\tp50\tp90\tlongest\tbranches\t\t")
	for _, name := range names {
		_, _ = fmt.Fprintln(table, packages[name].line(name))
	}
	_, _ = fmt.Fprintln(table, total.line(strings.Repeat("–", 5)))
	return table.Flush()
}
