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

const module = "github.com/kedacore/keda/v2"

// Program is KEDA's operator and its CustomResourceDefinitions, as files.
type Program struct {
	folder string
}

// Build returns the program, from the cache folder if it was built before. Otherwise that takes minutes, with progress
// on log. It must be called from inside the source of this module.
func Build(ctx context.Context, log io.Writer) (Program, error) {
	folder, err := pinned.Program{
		Title: "KEDA", Name: program, Module: module, Command: module + "/cmd/operator", Pins: "keda", Add: copyCRDs,
	}.Build(ctx, log)
	return Program{folder: folder}, err
}

func copyCRDs(_ context.Context, module, folder string) error {
	return os.CopyFS(filepath.Join(folder, crds), os.DirFS(filepath.Join(module, "config", "crd", "bases")))
}
