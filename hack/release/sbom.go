// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// writeModules writes the list of the modules in a binary, its SBOM. The lists of two platforms differ: each has the
// checksum of its binary.
func (r *release) writeModules(ctx context.Context, architecture, binary string) error {
	file := r.perPlatform(architecture, ".cdx.json")
	r.say("Writing %s.", file)
	list, err := r.listModules(ctx, binary)
	if err != nil {
		return fmt.Errorf("listing the modules: %w", err)
	}
	if list, err = cleaned(list, r.tag()); err != nil {
		return fmt.Errorf("listing the modules: %w", err)
	}
	return os.WriteFile(file, list, 0o644)
}

// cyclonedx reads from a binary which modules are in it.
func (r *release) cyclonedx(ctx context.Context, binary string) ([]byte, error) {
	return command(ctx, r.root, nil, "go", "tool", "-modfile=hack/tools/sbom/go.mod", "cyclonedx-gomod",
		"bin", "-json", "-std", "-noserial", "-notimestamp", "-version="+r.tag(), binary)
}

// The module of the API is compiled from the folder api. A list has this folder in place of its name, and no version.
const (
	apiModule = "miracle.dev/scaledjob-operator/api"
	apiFolder = "./api"
	noVersion = "(devel)"
)

// cleaned returns the list with the name and version of the module of the API, and without the checksums of the program
// that made the list: they depend on the machine on which that program was compiled.
func cleaned(list []byte, version string) ([]byte, error) {
	const scheme = "pkg:golang/"
	list = bytes.ReplaceAll(list, []byte(scheme+apiFolder+"@"+noVersion), []byte(scheme+apiModule+"@"+version))
	var document map[string]any
	if err := json.Unmarshal(list, &document); err != nil {
		return nil, err
	}
	components, _ := document["components"].([]any)
	for _, component := range components {
		if component, ok := component.(map[string]any); ok && component["name"] == apiFolder {
			component["name"], component["version"] = apiModule, version
		}
	}
	removeToolHashes(document)
	clean, err := json.MarshalIndent(document, "", "  ")
	if bytes.Contains(clean, []byte(noVersion)) {
		return nil, errors.New("it has a module without a version")
	}
	return append(clean, '\n'), err
}

func removeToolHashes(document map[string]any) {
	metadata, _ := document["metadata"].(map[string]any)
	tools, _ := metadata["tools"].([]any)
	for _, tool := range tools {
		if tool, ok := tool.(map[string]any); ok {
			delete(tool, "hashes")
		}
	}
}
