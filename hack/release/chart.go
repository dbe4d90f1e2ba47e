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
	"regexp"

	"miracle.dev/scaledjob-operator/hack/release/oci"
)

// chartFolder is where the chart is.
const chartFolder = "charts/" + project

// leftOut matches what editors, file managers and tests leave in a folder.
var leftOut = regexp.MustCompile(`(^|/)((tests|\.git|\.idea|\.vscode)(/.*)?|.*~|.*\.(bak|orig|rej|swp|tmp|tgz)|\.DS_Store|.*_test\.go)$`)

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

// chartFiles reads the files of a chart.
func chartFiles(folder string) (map[string][]byte, error) {
	tree, err := oci.Tree(folder)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, file := range tree {
		switch {
		case leftOut.MatchString(file.Path) || file.Mode.IsDir():
		case file.Link != "":
			return nil, fmt.Errorf("%s/%s is a symbolic link, which a chart can't hold", folder, file.Path)
		default:
			if files[file.Path], err = os.ReadFile(file.Source); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// stamp writes the version and the image into the files of the chart. The tag in its values stays empty, which means
// the appVersion: a tag there would outlive an upgrade with --reuse-values.
func (r *release) stamp(files map[string][]byte, digest string) error {
	values := map[string]string{"image.repository": r.image}
	if digest != "" {
		values["image.digest"] = digest
	}
	changed, err := setScalars(files["values.yaml"], values)
	if err != nil {
		return fmt.Errorf("%s/values.yaml: %w", chartFolder, err)
	}
	files["values.yaml"] = changed

	before := files["Chart.yaml"]
	changed, err = setScalars(before, map[string]string{"version": r.version, "appVersion": r.tag()})
	if err != nil {
		return fmt.Errorf("%s/Chart.yaml: %w", chartFolder, err)
	}
	// Artifact Hub reads the images from an annotation, which is a text.
	placeholder := []byte("image: " + project + ":0.0.0")
	if !bytes.Contains(changed, placeholder) {
		return fmt.Errorf("%s/Chart.yaml has no %s in its annotation of images", chartFolder, placeholder)
	}
	files["Chart.yaml"] = bytes.ReplaceAll(changed, placeholder, []byte("image: "+r.reference(digest)))
	return nil
}
