// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
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
	if list, err = withoutToolHashes(list); err != nil {
		return fmt.Errorf("listing the modules: %w", err)
	}
	return os.WriteFile(file, list, 0o644)
}

// cyclonedx reads from a binary which modules are in it.
func (r *release) cyclonedx(ctx context.Context, binary string) ([]byte, error) {
	return command(ctx, r.root, nil, "go", "tool", "-modfile=hack/tools/sbom/go.mod", "cyclonedx-gomod",
		"bin", "-json", "-std", "-noserial", "-notimestamp", "-version="+r.tag(), binary)
}

// withoutToolHashes removes the checksums of the program that made the list. They depend on the machine on which that
// program was compiled.
func withoutToolHashes(list []byte) ([]byte, error) {
	var document map[string]any
	if err := json.Unmarshal(list, &document); err != nil {
		return nil, err
	}
	metadata, _ := document["metadata"].(map[string]any)
	tools, _ := metadata["tools"].([]any)
	for _, tool := range tools {
		if tool, ok := tool.(map[string]any); ok {
			delete(tool, "hashes")
		}
	}
	clean, err := json.MarshalIndent(document, "", "  ")
	return append(clean, '\n'), err
}
