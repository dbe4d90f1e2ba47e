// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

const checksums = "SHA256SUMS"

// made matches the names of all files that a release of any version writes, and that of the signature by make sign.
var made = regexp.MustCompile(`^(` + project + `-.+(-linux-(amd64|arm64)\.(tar|cdx\.json)|\.tgz)|` +
	plugin + `-.+-(linux|darwin|windows)-(amd64|arm64)\.(tar\.gz|zip)|krew\.yaml|crds\.yaml|install\.yaml|` + checksums + `(\.sigstore\.json)?|\..*\.part)$`)

// clearDist creates the folder, or deletes what an earlier release wrote to it. It deletes nothing if there is anything
// else in it.
func clearDist(dist string) error {
	if err := createDist(dist); err != nil {
		return err
	}
	entries, err := os.ReadDir(dist)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !made.MatchString(entry.Name()) {
			return fmt.Errorf("%s holds %s, which is not of a release: move it elsewhere", dist, entry.Name())
		}
	}
	for _, entry := range entries {
		if err := os.Remove(filepath.Join(dist, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// createDist creates the folder. It reports one in which no file can be created before minutes of work are spent.
func createDist(dist string) error {
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(dist, ".*.part")
	if err != nil {
		return fmt.Errorf("cannot write to %s: %w", dist, err)
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Remove(file.Name())
}

// writeChecksums writes the file that sha256sum -c reads.
func writeChecksums(dist string) error {
	entries, err := os.ReadDir(dist)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, entry := range entries {
		if entry.Name() == checksums {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dist, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return os.WriteFile(filepath.Join(dist, checksums), lines.Bytes(), 0o644)
}
