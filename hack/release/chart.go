// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"miracle.dev/scaledjob-operator/hack/release/oci"
)

// chartFolder is where the chart is.
const chartFolder = "charts/" + project

// writeChart packs the chart. Unlike helm package, it writes no times.
func (r *release) writeChart(digest string) error {
	files, err := chartFiles(filepath.Join(r.root, chartFolder))
	if err != nil {
		return err
	}
	if err := r.stamp(files, digest); err != nil {
		return err
	}
	packed := make([]oci.File, 0, len(files))
	for name, content := range files {
		packed = append(packed, oci.File{Path: path.Join(project, name), Mode: 0o644, Content: content})
	}
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	if err := oci.WriteTar(compressed, packed); err != nil {
		return err
	}
	if err := compressed.Close(); err != nil {
		return err
	}
	// Helm wants the name of the file to end with the version of the chart.
	file := filepath.Join(r.dist, project+"-"+r.version+".tgz")
	r.say("Writing %s.", file)
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// chartFiles reads the files of a chart, except those that its .helmignore names.
func chartFiles(folder string) (map[string][]byte, error) {
	list, err := os.ReadFile(filepath.Join(folder, ".helmignore"))
	if err != nil {
		return nil, err
	}
	patterns := strings.Split(string(list), "\n")
	tree, err := oci.Tree(folder)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, file := range tree {
		if file.Mode.IsDir() || ignored(file.Path, patterns) {
			continue
		}
		if files[file.Path], err = os.ReadFile(file.Source); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// ignored reports whether a pattern of .helmignore matches the name of a file, or of a folder on the way to it.
func ignored(file string, patterns []string) bool {
	for name := range strings.SplitSeq(file, "/") {
		for _, pattern := range patterns {
			if matched, _ := path.Match(strings.TrimSuffix(pattern, "/"), name); matched {
				return true
			}
		}
	}
	return false
}

// stamp writes the version and the image into the files of the chart. The tag in its values stays empty, which means
// the appVersion: a tag there would outlive an upgrade with --reuse-values.
func (r *release) stamp(files map[string][]byte, digest string) (err error) {
	for _, line := range []struct{ file, is, becomes string }{
		{"Chart.yaml", "version: 0.0.0", fmt.Sprintf("version: %q", r.version)},
		{"Chart.yaml", `appVersion: "0.0.0"`, fmt.Sprintf("appVersion: %q", r.tag())},
		// Artifact Hub reads the images from an annotation.
		{"Chart.yaml", "      image: " + project + ":0.0.0", "      image: " + r.reference(digest)},
		{"values.yaml", "  repository: " + project, fmt.Sprintf("  repository: %q", r.image)},
		{"values.yaml", `  digest: ""`, fmt.Sprintf("  digest: %q", digest)},
	} {
		if files[line.file], err = replaceLine(files[line.file], line.is, line.becomes); err != nil {
			return fmt.Errorf("%s/%s: %w", chartFolder, line.file, err)
		}
	}
	return nil
}

// replaceLine replaces a line that the content must have exactly once.
func replaceLine(content []byte, line, by string) ([]byte, error) {
	lines := strings.Split(string(content), "\n")
	at := slices.Index(lines, line)
	if at < 0 || slices.Contains(lines[at+1:], line) {
		return nil, fmt.Errorf("it needs the line %q, once", line)
	}
	lines[at] = by
	return []byte(strings.Join(lines, "\n")), nil
}
