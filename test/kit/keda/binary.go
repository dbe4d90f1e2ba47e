// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keda

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"miracle.dev/scaledjob-operator/test/kit/pinned"
)

// What a folder of the cache has.
const (
	program = "keda-operator"
	crds    = "crds"
)

const (
	module = "github.com/kedacore/keda/v2"
	// pins is the folder of the module that says which version is meant.
	pins = "keda"
)

// Program is KEDA's operator and its CustomResourceDefinitions, as files.
type Program struct {
	folder string
}

// Build returns the program, from the cache folder if it was built before. Otherwise that takes minutes, with progress
// on log. It must be called from inside the source of this module.
func Build(ctx context.Context, log io.Writer) (Program, error) {
	folder, err := pinned.Program{
		Title: "KEDA", Name: program, Module: module, Command: module + "/cmd/operator", Pins: pins, Add: copyCRDs,
	}.Build(ctx, log)
	return Program{folder: folder}, err
}

// CRDs returns the folder with KEDA's CustomResourceDefinitions, for tests that need its objects and not its operator.
func CRDs(ctx context.Context) (string, error) {
	source, err := pinned.Source(ctx, pins, module)
	return crdsOf(source), err
}

func copyCRDs(_ context.Context, module, folder string) error {
	return os.CopyFS(filepath.Join(folder, crds), os.DirFS(crdsOf(module)))
}

// crdsOf is the folder with the CustomResourceDefinitions in the source of KEDA.
func crdsOf(source string) string { return filepath.Join(source, "config", "crd", "bases") }
