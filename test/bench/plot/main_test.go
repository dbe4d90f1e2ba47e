// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const input = `[{"file": "a.svg", "title": "A title", "sum": "0123abcd", "x": {"label": "across", "log": true}, "y": {"label": "up"},
	"lines": [{"name": "one", "points": [[1, 2], [10, 4]], "reference": true}, {"name": "two", "points": [[1, 3], [1000, 9]]}]}]`

func TestWhatIsDrawn(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "new")
	if err := run(strings.NewReader(input), []string{folder}); err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile(filepath.Join(folder, "a.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"<svg", "A title", "across", "up", "one", "two", "1000", "stroke-dasharray", "</svg>"} {
		if !strings.Contains(string(drawn), part) {
			t.Errorf("the file has no %s", part)
		}
	}
	if !strings.HasSuffix(string(drawn), "<!-- 0123abcd -->\n") {
		t.Error("the file does not tell what it was drawn from")
	}
}

func TestPanelsAreInOneFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	panels := strings.Repeat(","+input[1:len(input)-1], 3)[1:]
	if err := run(strings.NewReader(`[{"file": "b.svg", "sum": "ab", "panels": [`+panels+`]}]`), []string{folder}); err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile(filepath.Join(folder, "b.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if titles := strings.Count(string(drawn), "A title"); titles != 3 {
		t.Errorf("the file has %d panels", titles)
	}
}

func TestWhatCannotBeDrawn(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]string{
		"no list":      `{}`,
		"no lines":     `[{"file": "a.svg"}]`,
		"no points":    `[{"file": "a.svg", "lines": [{"name": "one"}]}]`,
		"no logarithm": strings.Replace(input, "[1, 2]", "[0, 2]", 1),
	} {
		if err := run(strings.NewReader(wrong), []string{t.TempDir()}); err == nil {
			t.Errorf("%s is drawn", name)
		}
	}
	if err := run(strings.NewReader(input), nil); err == nil {
		t.Error("without a folder something is drawn")
	}
}
